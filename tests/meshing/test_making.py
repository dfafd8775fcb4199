"""Programs of four devices, compiled and run, compared with NumPy and with JAX's four devices.

JAX has several devices only if it is told so before it begins, so a process of its own exports.
"""

import ctypes
import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec.meshing import compile_mesh
from edgec.runtime import Device
from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.errors import FileError, ModuleError, UsageError
from edgec.runtime.mesh.nccl import Nccl
from edgec.runtime.mesh.running import load_mesh
from edgec.toolchain import CompileOptions, load_program

EXPORT = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 4)
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P
from edgec.exporters import Bundle, Entry, export
from edgec.runtime.errors import EdgecError

random = np.random.default_rng(0)
X = random.standard_normal((8, 16)).astype(np.float32)
W = random.standard_normal((16, 12)).astype(np.float32)
V = random.standard_normal((16, 32)).astype(np.float32)


def each(x, w):
    product = lax.psum(x @ w, "y")
    gathered = x @ lax.all_gather(w, "x", axis=0, tiled=True)[:8]
    scattered = lax.psum_scatter(product, "y", scatter_dimension=1, tiled=True)
    passed = lax.ppermute(x, "x", [(0, 1), (1, 0)]) + lax.axis_index("y")
    exchanged = lax.all_to_all(product, "x", 1, 0, tiled=True)
    most = lax.pmax(x.max(), ("x", "y"))
    return product, gathered, scattered, passed, exchanged, most


def shards(x, w):
    return jax.shard_map(
        each, in_specs=(P("x", "y"), P("y", None)), check_vma=False,
        out_specs=(P("x"), P("x", "y"), P("x", "y"), P("x", "y"), P(None, "x"), P()),
    )(x, w)


def layers(x):
    h = lax.with_sharding_constraint(jnp.tanh(x @ V), P("x", "y"))
    y = h @ V.T
    y, sums = lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), y, jnp.stack([V[:, :16]] * 2))
    curved = lax.erf(y) + jnp.square(y)
    return y[::-1], sums, jnp.roll(y, 3, axis=1), jnp.sort(y, axis=0), curved


def apart(x):
    cut = lax.with_sharding_constraint(x, P("x", "y"))
    place = jnp.int32(x[0, 0] > 9)
    largest = cut.max(0), cut.prod(1), jnp.argmax(cut, 1)
    moved = lax.dynamic_slice(cut, (place, 2), (4, 8)), jnp.diff(cut, axis=0)
    return *largest, *moved, cut[jnp.argsort(cut[:, 0])], cut.at[1].max(0.5)


def endless(x):
    def body(t):
        return lax.psum(t, "x") / 8
    return lax.while_loop(lambda t: t.sum() > 1, body, x)


def unending(x):
    return jax.shard_map(endless, in_specs=P("x"), out_specs=P(), check_vma=False)(x)


entries = (Entry(shards, (X, W), name="shards"), Entry(layers, (X,), name="layers"))
entries += (Entry(apart, (X,), name="apart"),)
export(Bundle(entries), mesh="x=2,y=2", external_weights=sys.argv[1] + ".safetensors").save(
    sys.argv[1] + ".mlirbc"
)
tries = {
    "loop": lambda: export(unending, (X,), mesh="x=2,y=2"),
    "axes": lambda: export(jnp.tanh, (X,), mesh="x=2,y=2", shard=["x=z,_"]),
    "names": lambda: export(jnp.tanh, (X,), mesh="x=2,y=2", shard=["image=x,_"]),
    "sizes": lambda: export(jnp.tanh, (X[:7],), mesh="x=2,y=2", shard=["x=x,_"]),
    "devices": lambda: export(jnp.tanh, (X,), mesh="x=8"),
    "weights": lambda: export(lambda x: x @ V, (X,), mesh="x=2"),
    "dynamic": lambda: export(jnp.tanh, (X,), mesh="x=2", dynamic="batch"),
}
for name, attempt in tries.items():
    try:
        attempt()
    except EdgecError as error:
        print(name, type(error).__name__, error.what, error.where, sep="|")
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The program's file, and what was refused, by name."""
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "export.py").write_text(EXPORT)
    done = subprocess.run(
        [sys.executable, "export.py", "net"],
        check=True,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    return folder / "net.mlirbc", {line.split("|")[0]: line for line in done.stdout.splitlines()}


@pytest.fixture(scope="module")
def made(exported):
    path = exported[0]
    return compile_mesh(load_program(path), "cpu", path.with_suffix(".mesh"), CompileOptions())


def arrays():
    random = np.random.default_rng(0)
    shapes = ((8, 16), (16, 12), (16, 32))
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in shapes)


def test_the_devices_together_give_what_jax_gives(made):
    assert made.check.startswith("checked on a CPU")


@pytest.mark.parametrize("devices", [(), ("cpu", "cpu", "cpu", "cpu")])
def test_shard_map_gives_what_its_collectives_say(made, devices):
    x, w, _ = arrays()
    with load_mesh(made.folder.path, devices, simulate=not devices) as loaded:
        product, _, scattered, passed, exchanged, most = loaded.shards(x, w)
    np.testing.assert_allclose(product, x @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scattered, 2 * x @ w, rtol=1e-4, atol=1e-4)
    swapped = np.concatenate([x[4:], x[:4]]) + np.repeat([0, 1], 8)
    np.testing.assert_allclose(passed, swapped, rtol=1e-6)
    np.testing.assert_allclose(exchanged, x @ w, rtol=1e-4, atol=1e-4)
    assert most == x.max()


def test_a_sharded_jit_gives_what_numpy_gives(made):
    x, _, v = arrays()
    with load_mesh(made.folder.path, simulate=True) as loaded:
        back, sums, rolled, ordered, curved = loaded.layers(x)
    y, wanted = np.tanh(x @ v) @ v.T, []
    for _ in range(2):
        wanted.append(y.sum())
        y = np.tanh(y @ v[:, :16])
    np.testing.assert_allclose(back, y[::-1], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(sums, wanted, rtol=1e-3)
    np.testing.assert_allclose(rolled, np.roll(y, 3, axis=1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ordered, np.sort(y, axis=0), rtol=1e-3, atol=1e-3)
    wanted = np.vectorize(math.erf)(y) + y * y
    np.testing.assert_allclose(curved, wanted, rtol=1e-3, atol=1e-3)


def test_each_device_has_a_part_of_the_weights(made):
    whole = (made.folder.path.parent / "net.safetensors").stat().st_size
    assert any(any(cut) for cut in made.folder.plan.weights.values())
    sizes = {path.stat().st_size for path in made.folder.weights}
    assert max(sizes) < whole


def test_what_no_device_can_do_with_its_part_alone_is_right(made):
    x, _, _ = arrays()
    with load_mesh(made.folder.path, simulate=True) as loaded:
        largest, product, place, some, between, ordered, raised = loaded.apart(x)
    higher = np.array(x)
    higher[1] = np.maximum(x[1], 0.5)
    np.testing.assert_array_equal(largest, x.max(0))
    np.testing.assert_allclose(product, x.prod(1), rtol=1e-5)
    np.testing.assert_array_equal(place, x.argmax(1))
    np.testing.assert_array_equal(some, x[:4, 2:10])
    np.testing.assert_array_equal(between, np.diff(x, axis=0))
    np.testing.assert_array_equal(ordered, x[np.argsort(x[:, 0])])
    np.testing.assert_array_equal(raised, higher)


def test_another_number_of_devices_is_refused(made):
    with pytest.raises(UsageError, match=r"is for 4 devices \(x=2,y=2\), not 3"):
        load_mesh(made.folder.path, ["cpu"] * 3)


def test_a_module_of_another_folder_is_refused(made, tmp_path):
    for file in made.folder.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((tmp_path / "mesh.json").read_text())
    manifest["digest"] = "0" * 8
    (tmp_path / "mesh.json").write_text(json.dumps(manifest))
    with pytest.raises(ModuleError, match="not of the module beside it"):
        load_mesh(tmp_path, simulate=True)


def test_a_folder_of_other_things_is_left_alone(exported, tmp_path):
    (tmp_path / "letter.txt").write_text("keep")
    with pytest.raises(FileError, match="holds other things"):
        compile_mesh(load_program(exported[0]), "cpu", tmp_path, CompileOptions())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loop", "UnsupportedOp|main has a collective (all_reduce) inside a while"),
        ("axes", "UsageError|x cannot be cut so"),
        ("names", "UsageError|main has no input and no weight image"),
        ("sizes", "ExportError|an axis of an array in"),
        ("devices", "ExportError|the mesh x=8 has 8 devices, and JAX has 4 here"),
        ("weights", "UsageError|a program for several devices keeps its weights outside"),
        ("dynamic", "ExportError|main takes"),
    ],
)
def test_what_is_not_done_is_refused_by_name(exported, name, said):
    assert exported[1][name].startswith(f"{name}|{said}")


def test_a_refused_collective_names_its_line(exported):
    number = 1 + EXPORT.splitlines().index('        return lax.psum(t, "x") / 8')
    assert exported[1]["loop"].endswith(f"export.py:{number} (endless.<locals>.body)")


def processes(folder, devices, *arguments):
    """`edgec run FOLDER --processes` for each device, as torchrun starts it: what each says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": str(devices), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-m", "edgec.cli", "run", str(folder), "--processes", *arguments]
    started = [
        subprocess.Popen(
            [*command, "--devices=" + ",".join(["cpu"] * devices)],
            env={**os.environ, **told, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(devices)
    ]
    said = [each.communicate(timeout=120)[0] for each in started]
    return said, [each.returncode for each in started]


@pytest.mark.slow
def test_a_pytorch_model_is_cut_by_its_inputs_alone(tmp_path):
    import torch

    from edgec.exporters import export

    torch.manual_seed(0)
    layers = (torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    model = torch.nn.Sequential(*layers).eval()
    x = torch.randn(8, 64)
    weights = tmp_path / "net.safetensors"
    program = export(model, (x,), mesh="x=2", shard=["input=_,x"], external_weights=weights)
    made = compile_mesh(
        program.save(tmp_path / "net.mlirbc"), "cpu", tmp_path / "net.mesh", CompileOptions()
    )
    assert [step.kind for step in made.folder.plan.routes["main"].collectives] == ["all_reduce"]
    with load_mesh(made.folder.path, simulate=True) as loaded:
        np.testing.assert_allclose(loaded.main(x.numpy()), model(x).detach(), atol=1e-5)
    # A process for each device, which speak to each other by gloo.
    said, codes = processes(made.folder.path, 2)
    assert codes == [0, 0], said
    assert "by gloo" in said[0]
    assert "ok" in said[0]
    assert said[1] == ""
    np.save(tmp_path / "x.npy", x.numpy())
    kept = f"--output={tmp_path / 'y.npy'}"
    said, codes = processes(made.folder.path, 2, f"--input=@{tmp_path / 'x.npy'}", kept)
    assert codes == [0, 0], said
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x).detach(), atol=1e-5)


def test_a_process_alone_is_told_how_to_start_the_others(made, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(UsageError, match="this process is one alone") as caught:
        load_mesh(made.folder.path, ["cpu"] * 4, processes=True)
    assert "torchrun --nproc-per-node=4" in caught.value.hint


def test_devices_that_speak_by_nccl_give_the_same(made, tmp_path, monkeypatch):
    """With the stand-in of `tests/runtime/host_nccl.c`, on devices in the host's memory."""
    source = Path(__file__).parents[1] / "runtime" / "host_nccl.c"
    library = tmp_path / "libhost_nccl.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    uris = ["local-sync", "local-task", "local-task?threads=2", "local-task?threads=3"]
    driver = ctypes.CDLL(str(library))
    for number, uri in enumerate(uris):
        backend = Device.open(uri).backend
        monkeypatch.setattr(backend, "context", CudaContext(number, driver))
        monkeypatch.setattr(backend, "maps_memory", False)
    monkeypatch.setattr("edgec.runtime.mesh.speaking.Nccl", lambda: Nccl(library))
    x, w, v = arrays()
    with load_mesh(made.folder.path, uris) as loaded:
        assert loaded.spoken == "NCCL 2.27.7"
        for _ in range(2):
            product, _, scattered, passed, exchanged, most = loaded.shards(x, w)
            y = np.tanh(x @ v) @ v.T
            for _ in range(2):
                y = np.tanh(y @ v[:, :16])
            np.testing.assert_allclose(loaded.layers(x)[0], y[::-1], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(product, x @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scattered, 2 * x @ w, rtol=1e-4, atol=1e-4)
    swapped = np.concatenate([x[4:], x[:4]]) + np.repeat([0, 1], 8)
    np.testing.assert_allclose(passed, swapped, rtol=1e-6)
    np.testing.assert_allclose(exchanged, x @ w, rtol=1e-4, atol=1e-4)
    assert most == x.max()
