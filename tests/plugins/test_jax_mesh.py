"""`EDGEC_JAX_DEVICES=cpu,cpu`: what JAX spreads over devices is what it is on XLA's CPUs."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.plugins.conftest import ROOT, Run, kept_modules, moved, outcomes

PROGRAMS = ROOT / "tests" / "plugins" / "jax_mesh_programs.py"
TOGETHER = (
    *("data_parallel_step", "transformer_block", "results_that_nobody_cuts"),
    *(
        "results_that_are_whole",
        "collectives",
        "collectives_alone",
        "sums_of_every_type",
        "loops_of_fixed_rounds",
    ),
    *("devices_in_another_order", "devices_in_any_order", "some_of_the_devices", "pmap"),
    *("arrays_in_parts", "python_that_programs_call"),
    *("operations_along_axes_that_are_cut", "axes_by_hand_and_not"),
    *("donated_arrays", "calls_that_go_on", "nothing_at_all", "numbers_of_sixteen_bits"),
    *("loops_that_speak", "branches_that_speak", "devices_that_do_not_agree"),
    *("arrays_that_are_not_summed", "two_meshes", "narrow_integers_and_tokens"),
    *("what_programs_say_of_themselves", "refusal_with_its_line"),
    *("program_of_one_device_as_a_module", "replicas"),
)
OF_EIGHT = ("arrays_cut_anew", "arrays_not_summed_along_four", "meshes_that_do_not_fit")
HERE = {"JAX_PLATFORMS": "edgec,cpu", "EDGEC_JAX_DEVICES": "cpu,cpu,cpu,cpu"}
EIGHT = HERE | {"EDGEC_JAX_DEVICES": ",".join(["cpu"] * 8)}


@pytest.fixture(scope="module")
def together(run: Run) -> dict[str, str]:
    """What went wrong in the programs that can share a process."""
    return outcomes(run(PROGRAMS, *TOGETHER, **HERE))


@pytest.mark.parametrize("program", TOGETHER)
def test_a_program_is_right(together: dict[str, str], program: str) -> None:
    assert not together[program], together[program]


def test_programs_of_eight_devices_are_right(run: Run) -> None:
    wrong = outcomes(run(PROGRAMS, *OF_EIGHT, **EIGHT))
    assert wrong == dict.fromkeys(OF_EIGHT, ""), "\n".join(wrong.values())


def test_arrays_without_elements_are_not_gathered(run: Run) -> None:
    """Of two devices: of four, this is one of the programs above."""
    done = run(PROGRAMS, "nothing_at_all", JAX_PLATFORMS="edgec,cpu", EDGEC_JAX_DEVICES="cpu,cpu")
    wrong = outcomes(done)["nothing_at_all"]
    assert not wrong, wrong


def test_an_executable_goes_to_another_process_as_bytes(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "executable")
    for program, cache in (("executable_to_bytes", "here"), ("executable_from_bytes", "there")):
        kept = {"EXECUTABLE": file, "EDGEC_CACHE_DIR": str(tmp_path / cache)}
        wrong = outcomes(run(PROGRAMS, program, **HERE, **kept))[program]
        assert not wrong, wrong


def test_another_start_cuts_and_compiles_nothing(
    together: dict[str, str], run: Run, tmp_path: Path
) -> None:
    """The program of another line is known by its bytes without lines."""
    assert not together["data_parallel_step"]
    before = kept_modules(run, tmp_path)
    done = run(moved(PROGRAMS, tmp_path), "data_parallel_step", **HERE)
    wrong = outcomes(done)["data_parallel_step"]
    assert not wrong, wrong
    assert kept_modules(run, tmp_path) == before


@pytest.mark.vulkan
def test_a_gpu_that_is_named_twice_is_several_devices(run: Run) -> None:
    """What devices say to each other, and what a loop asks of a number, goes through the host."""
    twice = {**HERE, "EDGEC_JAX_DEVICES": "vulkan:0,vulkan:0"}
    done = run(PROGRAMS, "loops_that_speak", "branches_that_speak", **twice)
    for name, wrong in outcomes(done).items():
        assert not wrong, name + wrong
    assert "through the host's memory: they are no GPUs that NCCL knows" in done.stderr


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with libraries in place of NVIDIA's, of GPUs whose kernels do not run."""
    folder = tmp_path_factory.mktemp("paper")
    for source, name in (
        (ROOT / "tests" / "c" / "fake_cuda.c", "libcuda.so.1"),
        (Path(__file__).with_name("group_nccl.c"), "libnccl.so.2"),
    ):
        build = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-Wl,-soname,{name}", str(source)]
        subprocess.run([*build, "-o", str(folder / name)], check=True)
    return {
        "JAX_PLATFORMS": "edgec,cpu",
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_LAUNCHES": str(folder / "launches"),
        "FAKE_DEVICES": "4",
    }


def test_devices_of_different_kinds_are_refused(run: Run, paper: dict[str, str]) -> None:
    done = run(PROGRAMS, "of_different_kinds", **paper, EDGEC_JAX_DEVICES="cpu,cuda,cpu")
    wrong = outcomes(done)["of_different_kinds"]
    assert not wrong, wrong


def test_gpus_speak_by_nccl(run: Run, paper: dict[str, str], tmp_path: Path) -> None:
    """What NCCL does not do, sums of 16-bit integers here, goes through the host, and is told."""
    told = tmp_path / "told"
    four = {**paper, "EDGEC_JAX_DEVICES": "cuda,cuda,cuda,cuda", "GROUP_NCCL": str(told)}
    done = run(PROGRAMS, "collectives_alone", **four)
    for name, wrong in outcomes(done).items():
        assert not wrong, name + wrong
    kinds = {"all_reduce", "reduce_scatter", "all_gather", "send", "receive"}
    said = set(told.read_text().splitlines())
    assert {line.split()[0] for line in said} == kinds
    assert {"all_reduce of 2", "all_reduce of 4"} <= said
    lines = [line for line in done.stderr.splitlines() if line.startswith("edgec:")]
    assert lines == [
        "edgec: a collective of jit_each goes through the host's memory: "
        "NCCL has no such reduction of such elements"
    ]


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ("cuda:1,cuda:1,cuda:1,cuda:1", "NCCL does not take a GPU that is named twice"),
        (
            "cuda,cuda,cuda,cuda",
            "NCCL is not here (pip install nvidia-nccl-cu12, or nvidia-nccl-cu13)",
        ),
    ],
)
def test_gpus_without_nccl_speak_through_the_host(
    run: Run, paper: dict[str, str], tmp_path: Path, devices: str, why: str
) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(Path(paper["LD_LIBRARY_PATH"]) / "libcuda.so.1")
    alone = {**paper, "LD_LIBRARY_PATH": str(tmp_path), "EDGEC_JAX_DEVICES": devices}
    done = run(PROGRAMS, "collectives_alone", **alone)
    wrong = outcomes(done)["collectives_alone"]
    assert not wrong, wrong
    lines = [line for line in done.stderr.splitlines() if line.startswith("edgec:")]
    assert lines == [f"edgec: devices speak to each other through the host's memory: {why}"]


def test_damaged_routes_are_refused(tmp_path: Path) -> None:
    """Every number of a route replaced by others, and every length: nothing is read beside it."""
    plugin, build = ROOT / "runtime" / "pjrt", tmp_path / "damaged_routes"
    sources = [ROOT / "tests" / "plugins" / "damaged_routes.c", plugin / "route.c"]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined"]
    flags += ["-fno-sanitize-recover=all", "-DEDGERT_BUILDING"]
    folders = [f"-I{plugin}", f"-I{ROOT / 'runtime' / 'c' / 'include'}"]
    sources += [plugin / "error.c", plugin / "types.c"]
    words = ["cc", *flags, *folders, *map(str, sources), "-o", str(build)]
    subprocess.run(words, check=True)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run([str(build)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    tried, taken = map(int, done.stdout.split())
    assert tried > 500
    assert 0 < taken < tried
