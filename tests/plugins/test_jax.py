"""`JAX_PLATFORMS=edgec`: what JAX computes on edgec's devices is what NumPy computes."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from edgec.runtime import pjrt_library
from edgec.runtime.errors import DeviceError

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "tests"
Run = Callable[..., subprocess.CompletedProcess[str]]

START = """
import edgec.plugins.jax
edgec.plugins.jax.initialize()
import numpy as np
import jax
import jax.numpy as jnp
"""


@pytest.fixture(scope="module")
def plugin() -> Iterator[Path]:
    """The plugin's library, built once for each state of its sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEC_CACHE_DIR", str(BUILT))
        patch.delenv(pjrt_library.PJRT_VARIABLE, raising=False)
        try:
            yield pjrt_library.find_plugin.__wrapped__()
        except DeviceError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="module")
def run(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a script on edgec's platform, with a cache of this module's own."""
    folder = tmp_path_factory.mktemp("jax")

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {
            **os.environ,
            "JAX_PLATFORMS": "edgec",
            "EDGEC_CACHE_DIR": str(folder / "cache"),
            pjrt_library.PJRT_VARIABLE: str(plugin),
            **environment,
        }
        file = folder / "script.py"
        file.write_text(START + script)
        return subprocess.run(
            [sys.executable, "-W", "error", str(file)],
            env=given,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def passed(done: subprocess.CompletedProcess[str]) -> Sequence[str]:
    """What a script printed, once it has ended well."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_entry_point_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared["jax_plugins"] == {"edgec": "edgec.plugins.jax"}


def test_arrays_are_computed_as_numpy_does(run: Run) -> None:
    script = """
assert [device.platform for device in jax.devices()] == ["edgec"]
np.testing.assert_array_equal(jnp.ones(3) + 1, [2, 2, 2])

x = np.arange(12, dtype=np.float32).reshape(3, 4)
def loss(w, x):
    y = jnp.tanh(x @ w)
    return (y ** 2).sum(), y
w = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
(value, y), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(w, x)
want = np.tanh(x @ w)
np.testing.assert_allclose(y, want, rtol=1e-5)
np.testing.assert_allclose(value, (want ** 2).sum(), rtol=1e-5)
np.testing.assert_allclose(slope, x.T @ (2 * want * (1 - want ** 2)), rtol=1e-4, atol=1e-4)
"""
    passed(run(script))


def test_buffers_of_every_type_come_back_as_they_went(run: Run) -> None:
    script = """
jax.config.update("jax_enable_x64", True)
kinds = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
kinds += ["float16", "float32", "float64", "bfloat16", "complex64", "complex128"]
for kind in kinds:
    for shape in [(), (0, 3), (2, 3, 5)]:
        values = (np.arange(np.prod(shape)) % 2).reshape(shape).astype(jnp.dtype(kind))
        for given in (values, values.T, values[..., ::-1] if shape else values):
            np.testing.assert_array_equal(jax.device_put(given), given)
try:
    jax.device_put(np.ones(3, jnp.float8_e5m2))
except jax.errors.JaxRuntimeError as error:
    assert "edgec's buffers have no elements of PJRT's type" in str(error)
else:
    raise AssertionError("an array of f8 was taken")
"""
    passed(run(script))


def test_numpy_and_the_cpu_share_memory(run: Run) -> None:
    script = """
whole = np.zeros(1024 + 16, np.float32)
start = -whole.ctypes.data % 64 // 4
aligned = whole[start : start + 1024]
x = jax.device_put(aligned, may_alias=True)
assert np.asarray(x).ctypes.data == aligned.ctypes.data
y = np.asarray(x)
x.delete()
assert y.sum() == 0
"""
    passed(run(script))


def test_donated_arrays_are_gone(run: Run) -> None:
    script = """
x, y = jnp.ones(4), jnp.ones(4)
z = jax.jit(lambda x, y: (x + y, y), donate_argnums=0)(x, y)
np.testing.assert_array_equal(z[0], [2, 2, 2, 2])
assert x.is_deleted() and not y.is_deleted()
try:
    x + 1
except RuntimeError as error:
    assert "deleted" in str(error)
else:
    raise AssertionError("a deleted array was read")
"""
    passed(run(script))


def test_the_module_that_ran_is_given(run: Run, tmp_path: Path) -> None:
    script = f"""
path = {str(tmp_path / "double.vmfb")!r}
double = jax.jit(lambda x, y: x * 2 + y)
x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
np.testing.assert_array_equal(double(x, y), [1, 3, 5])
module = edgec.plugins.jax.compiled(double, x, y, output=path)
assert str(module.path) == path
from edgec.runtime import load
with load(path) as loaded:
    np.testing.assert_array_equal(loaded.main(x, y), [1, 3, 5])
"""
    passed(run(script))


@pytest.mark.slow
def test_training_has_the_losses_of_xla(run: Run) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / "samples" / "digits")!r})
import train
train.train(report_every=50)
"""
    losses = [passed(run(script, JAX_PLATFORMS=each)) for each in ("cpu", "edgec")]
    numbers = [[float(line.split()[-1]) for line in lines] for lines in losses]
    assert len(numbers[0]) == 8
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-3)


@pytest.mark.vulkan
def test_arrays_move_to_a_gpu_and_back(run: Run) -> None:
    script = """
cpu, gpu = jax.devices()
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
moved = jax.device_put(x, gpu)
y = jax.jit(lambda x: jnp.tanh(x @ x.T))(moved)
assert y.devices() == {gpu}
back = jax.device_put(y, cpu)
assert back.devices() == {cpu}
np.testing.assert_allclose(back, np.tanh(x @ x.T), rtol=1e-5, atol=1e-6)
np.testing.assert_array_equal(moved, x)
"""
    passed(run(script, EDGEC_JAX_DEVICES="cpu,vulkan"))


def test_another_start_compiles_nothing(run: Run, tmp_path: Path) -> None:
    script = """
f = jax.jit(lambda x: x * 3 - 1)
np.testing.assert_array_equal(f(np.arange(4, dtype=np.int32)), [-1, 2, 5, 8])
"""
    cache = {"EDGEC_CACHE_DIR": str(tmp_path)}
    passed(run(script, **cache))
    made = {file for file in tmp_path.rglob("*.json") if "donated" in file.read_text()}
    assert made
    # From another line, so that the program is other bytes.
    passed(run("\n\n" + script, **cache))
    again = {file for file in tmp_path.rglob("*.json") if "donated" in file.read_text()}
    assert again == made


def test_what_is_refused_is_named_with_the_line(run: Run) -> None:
    script = """
def foreign(x):
    return jax.ffi.ffi_call("nobodys_kernel", jax.ShapeDtypeStruct((3,), jnp.float32))(x)
jax.jit(foreign)(np.ones(3, np.float32))
"""
    done = run(script)
    assert done.returncode != 0
    (said,) = [line for line in done.stderr.splitlines() if "JaxRuntimeError" in line]
    assert "nobodys_kernel" in said
    lines = (START + script).splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "ffi_call" in text)
    assert f"script.py:{line}" in done.stderr


def test_xla_runs_what_is_refused_where_that_is_asked(run: Run) -> None:
    script = """
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("d",))
def total(x):
    y = jax.lax.psum(x, "d")
    return y * 2, y[0]
f = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("d"), out_specs=(P(), P())))
x = np.arange(3, dtype=np.float32)
y, first = f(x)
assert y.devices() == {jax.devices()[0]}
np.testing.assert_array_equal(y, x * 2)
np.testing.assert_array_equal(first, 0)
np.testing.assert_array_equal(y + 1, x * 2 + 1)
"""
    refused = run(script)
    assert refused.returncode != 0
    assert "all_reduce speaks to other devices" in refused.stderr
    done = run(script, EDGEC_JAX_REFUSED="xla")
    passed(done)
    assert "XLA's CPU runs jit_total, since stablehlo.all_reduce speaks to other" in done.stderr


def test_a_compiler_that_dies_is_replaced(run: Run) -> None:
    script = """
import os, signal, sys
from pathlib import Path
def compilers():
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, parent = status.read_text().split(") ")[-1].split()[1], status.parent
        except OSError:
            continue
        if int(number) == os.getpid():
            yield int(parent.name)
assert len(jax.devices()) == 1
for process in list(compilers()):
    os.kill(process, signal.SIGKILL)
np.testing.assert_array_equal(jnp.arange(5) + 1, [1, 2, 3, 4, 5])
"""
    passed(run(script))


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"EDGEC_PJRT_LIBRARY": "/nowhere/plugin.so"}, "which is no file"),
        ({"EDGEC_JAX_DEVICES": "cpu,toaster"}, "names the device 'toaster'"),
        ({"EDGEC_JAX_REFUSED": "perhaps"}, "EDGEC_JAX_REFUSED=perhaps"),
    ],
)
def test_what_cannot_start_says_why(run: Run, variables: dict[str, str], said: str) -> None:
    done = run("jax.devices()\n", **variables)
    assert done.returncode != 0
    assert "Unable to initialize backend 'edgec'" in done.stderr
    assert said in done.stderr


def test_nothing_is_registered_where_nobody_asked(run: Run) -> None:
    script = """
from jax._src import xla_bridge
assert [device.platform for device in jax.devices()] == ["cpu"]
assert "edgec" not in xla_bridge._backend_factories
"""
    passed(run(script, JAX_PLATFORMS="cpu"))
