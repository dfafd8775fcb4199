"""`EDGEC_JAX_DEVICES=cpu,cpu`: what JAX spreads over devices is what it is on XLA's CPUs."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.plugins.conftest import ROOT, Run, kept_modules, moved, outcomes

PROGRAMS = ROOT / "tests" / "plugins" / "jax_mesh_programs.py"
TOGETHER = (
    *("data_parallel_step", "transformer_block", "results_that_nobody_cuts"),
    *("results_that_are_whole", "collectives", "sums_of_every_type", "loops_of_fixed_rounds"),
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


def test_gpus_are_refused_by_name(run: Run, tmp_path: Path) -> None:
    """With a library in place of NVIDIA's: a program of a CPU and a GPU, and one of two GPUs."""
    library = tmp_path / "libcuda.so.1"
    source = ROOT / "tests" / "c" / "fake_cuda.c"
    build = ["cc", "-std=gnu11", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source)]
    subprocess.run([*build, "-o", str(library)], check=True)
    done = run(
        PROGRAMS,
        "spread_over_gpus",
        JAX_PLATFORMS="edgec,cpu",
        EDGEC_JAX_DEVICES="cpu,cuda,cuda,cpu",
        LD_LIBRARY_PATH=str(tmp_path),
        FAKE_LAUNCHES=str(tmp_path / "launches"),
    )
    wrong = outcomes(done)["spread_over_gpus"]
    assert not wrong, wrong


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
