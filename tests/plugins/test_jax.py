"""`JAX_PLATFORMS=edgec`: what JAX computes on edgec's devices is what NumPy computes."""

import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import pytest

from edgec.plugins.jax import initialize
from edgec.plugins.pjrt import platform
from edgec.runtime.errors import MissingExtra, UsageError
from tests.plugins.conftest import Run, kept_modules, moved, outcomes

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "plugins" / "jax_programs.py"
TOGETHER = (
    *("losses_and_gradients", "random_numbers_in_a_loop", "buffers_of_every_type"),
    *("memory_shared_with_numpy", "donated_arrays", "nothing_at_all", "module_that_ran"),
    *("refusal_with_its_line", "options_of_a_compile", "mesh_of_one", "floats_of_four_bits"),
    *("narrow_integers", "tokens"),
    *("results_where_donated_arrays_lie", "donated_memory_that_others_see"),
    *("donation_to_a_call_that_fails", "training_in_place", "what_a_program_costs"),
    *("arrays_that_are_not_donated", "calls_that_go_on", "failure_of_a_call_that_goes_on"),
    *("compiler_that_dies", "products_by_a_named_algorithm", "python_without_a_cpu"),
)


@pytest.fixture(scope="module")
def together(run: Run) -> dict[str, str]:
    """What went wrong in the programs that can share a process."""
    return outcomes(run(PROGRAMS, *TOGETHER))


@pytest.mark.parametrize("program", TOGETHER)
def test_a_program_is_right(together: dict[str, str], program: str) -> None:
    assert not together[program], together[program]


def test_another_start_from_another_line_compiles_nothing(
    together: dict[str, str], run: Run, tmp_path: Path, plugin: Path
) -> None:
    before = kept_modules(run, tmp_path)
    assert before
    done = run(moved(PROGRAMS, tmp_path), "losses_and_gradients")
    assert not outcomes(done)["losses_and_gradients"]
    assert kept_modules(run, tmp_path) == before


def test_xla_runs_what_is_refused_where_that_is_asked(run: Run) -> None:
    done = run(PROGRAMS, "floats_of_four_bits", EDGEC_JAX_REFUSED="xla")
    wrong = outcomes(done)["floats_of_four_bits"]
    assert not wrong, wrong
    assert "XLA's CPU runs jit_rounded, since the compiler refused the program" in done.stderr


def test_an_executable_goes_to_another_process_as_bytes(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "executable")
    for program, cache in (("executable_to_bytes", "here"), ("executable_from_bytes", "there")):
        done = run(PROGRAMS, program, EXECUTABLE=file, EDGEC_CACHE_DIR=str(tmp_path / cache))
        wrong = outcomes(done)[program]
        assert not wrong, wrong


@pytest.mark.parametrize("devices", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_programs_call_python(run: Run, devices: str) -> None:
    given = {"JAX_PLATFORMS": "edgec,cpu", "EDGEC_JAX_DEVICES": devices}
    names = ("python_that_programs_call", "python_that_fails")
    done = run(PROGRAMS, *names, **given)
    assert outcomes(done) == dict.fromkeys(names, "")
    assert "speak to each other" not in done.stderr, "there is one device"


def test_checkpoints_of_orbax_are_kept_and_read(run: Run) -> None:
    pytest.importorskip("orbax.checkpoint")
    done = run(PROGRAMS, "checkpoints_of_orbax")
    wrong = outcomes(done)["checkpoints_of_orbax"]
    assert not wrong, wrong


@pytest.mark.vulkan
def test_a_gpu_is_a_device_beside_the_cpu(run: Run) -> None:
    done = run(PROGRAMS, "gpu_beside_the_cpu", EDGEC_JAX_DEVICES="cpu,vulkan")
    wrong = outcomes(done)["gpu_beside_the_cpu"]
    assert not wrong, wrong


@pytest.mark.vulkan
def test_donated_memory_of_a_gpu_is_written_into(run: Run) -> None:
    wrong = outcomes(run(PROGRAMS, "training_in_place", EDGEC_JAX_DEVICES="vulkan"))
    assert not wrong["training_in_place"], wrong


def test_nvidias_gpus_are_devices_by_edgerts_own_driver(run: Run, tmp_path: Path) -> None:
    """With a library in place of NVIDIA's, which does transfers and writes down kernels."""
    source = ROOT / "tests" / "c" / "fake_cuda.c"
    library = tmp_path / "libcuda.so.1"
    build = ["cc", "-std=gnu11", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", source]
    subprocess.run([*build, "-o", library], check=True)
    done = run(
        PROGRAMS,
        "gpu_that_only_writes_down",
        EDGEC_JAX_DEVICES="cpu,cuda,cuda",
        LD_LIBRARY_PATH=str(tmp_path),
        FAKE_LAUNCHES=str(tmp_path / "launches"),
    )
    wrong = outcomes(done)["gpu_that_only_writes_down"]
    assert not wrong, wrong


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="a GPU is here")
def test_what_is_missing_for_a_gpu_is_said(run: Run) -> None:
    done = run(PROGRAMS, EDGEC_JAX_DEVICES="cpu,cuda")
    assert done.returncode != 0
    assert "the device cuda cannot be opened: edgert: this system has no CUDA" in done.stderr
    assert "name devices of this machine in EDGEC_JAX_DEVICES" in done.stderr


@pytest.mark.slow  # tests/c/vm_programs.py has the jump that the solvers' loop is.
def test_solvers_whose_loop_gives_all_it_carries(run: Run) -> None:
    program = "solvers_whose_loop_gives_all_it_carries"
    wrong = outcomes(run(PROGRAMS, program))[program]
    assert not wrong, wrong


@pytest.mark.slow
def test_training_has_the_losses_of_xla(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "train_here.py"
    script.write_text(
        "import sys\n"
        "import edgec.plugins.jax\n"
        "edgec.plugins.jax.initialize()\n"
        f"sys.path.insert(0, {str(ROOT / 'samples' / 'digits')!r})\n"
        "import train\n"
        "train.train(report_every=50)\n"
    )
    ran = [run(script, JAX_PLATFORMS=each) for each in ("cpu", "edgec")]
    assert not any(each.returncode for each in ran), ran[1].stderr
    xla, ours = ([float(line.split()[-1]) for line in each.stdout.splitlines()] for each in ran)
    assert len(xla) == 8
    assert ours == pytest.approx(xla, abs=1e-3)


def test_what_cannot_start_says_why(run: Run) -> None:
    done = run(PROGRAMS, EDGEC_PJRT_LIBRARY="/nowhere/plugin.so")
    assert done.returncode != 0
    assert "Unable to initialize backend 'edgec'" in done.stderr
    assert "which is no file" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (platform.DEVICES_VARIABLE, "cpu,toaster", "names the device 'toaster'"),
        (platform.REFUSED_VARIABLE, "perhaps", "EDGEC_JAX_REFUSED=perhaps"),
    ],
)
def test_what_the_plugin_is_not_told_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=said):
        platform._options()


def test_another_jax_is_refused() -> None:
    platform._refuse_another_jax(jax.__version__)
    with pytest.raises(MissingExtra, match=r"needs jax.*0\.10.*, and jax 0\.99\.0 is installed"):
        platform._refuse_another_jax("0.99.0")


def test_what_every_process_with_jax_imports_is_little() -> None:
    code = (
        "import edgec.plugins.jax, sys; "
        "print([name for name in sys.modules if name.startswith(('edgec.', 'numpy', 'packaging'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['edgec.plugins', 'edgec.plugins.jax']"


def test_nothing_is_registered_where_nobody_asked() -> None:
    from jax._src import xla_bridge

    initialize()
    assert "edgec" not in xla_bridge._backend_factories


def test_the_entry_point_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared["jax_plugins"] == {"edgec": "edgec.plugins.jax"}
