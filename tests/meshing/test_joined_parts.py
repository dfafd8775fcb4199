"""A device's whole way through a mesh as one function, collectives in it: run by XLA, which is not
edgec, on two devices, and compared with NumPy; and compiled for GPUs, which needs none.

JAX has several devices only if it is told so before it begins, so a process of its own exports.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

from edgec.meshing import compile_mesh
from edgec.runtime.mesh.joined import JOIN
from edgec.runtime.module import Module
from edgec.toolchain import CompileOptions, load_program

EXPORT = """
import json
import sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import compiler
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib import xla_client
from edgec.exporters import export
from edgec.toolchain.joined_parts import join_parts
from edgec.toolchain.program import Parameter
from edgec.toolchain.weights_file import read_weights

random = np.random.default_rng(0)
X = random.standard_normal((8, 16)).astype(np.float32)
W = random.standard_normal((16, 768)).astype(np.float32)
B = random.standard_normal(768).astype(np.float32)


def each(x, w):
    h = jnp.tanh(lax.psum(x @ w, "m") / 4 + B)
    own = h[:4] + lax.axis_index("m").astype(jnp.float32)
    gathered = lax.all_gather(own, "m", axis=0, tiled=True) * B
    scattered = lax.psum_scatter(h * gathered, "m", scatter_dimension=0, tiled=True)
    return h, gathered, scattered


def whole(x):
    return jax.shard_map(
        each, in_specs=(P(None, "m"), P("m", None)), check_vma=False,
        out_specs=(P(), P(), P("m")),
    )(x, W)


def halves(x):
    return jax.shard_map(
        lambda x: lax.psum(jnp.tanh(x).astype(jnp.bfloat16), "m"), in_specs=P("m"), out_specs=P(),
        check_vma=False)(x)


def passed(x):
    return jax.shard_map(
        lambda x: lax.ppermute(jnp.tanh(x), "m", [(0, 1)]), in_specs=P("m"), out_specs=P("m"),
        check_vma=False)(x)


program = export(whole, (X,), mesh="m=2", external_weights="net.safetensors").save("net.mlirbc")
joined, reason = join_parts(program)
assert not reason, reason
told = {name: join_parts(export(f, (X,), mesh="m=2"))[1] for name, f in
        (("halves", halves), ("passed", passed))}
(function,) = (f for f in joined.info.functions if f.signature.name in joined.info.joined)
told["arguments"] = [
    role.name if isinstance(role, Parameter) else function.signature.inputs[role.index].name
    for role in function.arguments]
told["parts"] = [
    [str(spec) for spec in f.signature.outputs] for f in program.info.functions]

from iree.compiler import ir
from edgec.toolchain.ir.functions import functions
from edgec.toolchain.stablehlo import parse_stablehlo
module = parse_stablehlo(joined.bytecode, ir.Context())
for name, op in functions(module).items():
    with module.context:
        is_main = name == function.signature.name
        op.attributes["sym_name"] = ir.StringAttr.get("main" if is_main else name)
        op.attributes["sym_visibility"] = ir.StringAttr.get("public" if is_main else "private")
text = str(module)
devices = jax.devices()
options = compiler.get_compile_options(
    num_replicas=2, num_partitions=1, device_assignment=np.array([[0], [1]]))
run = devices[0].client.compile_and_load(text, xla_client.DeviceList(tuple(devices)), options)
weights = {"x": [X[:, :8], X[:, 8:]], "device_number": [np.uint32(0), np.uint32(1)]}
for name, value in read_weights(program.path.parent / program.info.weights.file).items():
    cut = program.info.mesh.weights[name]
    weights[name] = [value, value] if not any(cut) else np.split(value, 2, 0)
mesh = Mesh(np.array(devices), ("d",))


def put(parts):
    arrays = [jax.device_put(jnp.asarray(p), d) for p, d in zip(parts, devices)]
    sharding = NamedSharding(mesh, P("d") if arrays[0].ndim else P())
    shape = arrays[0].shape
    shape = (2 * shape[0], *shape[1:]) if shape else shape
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays)


made = run.execute_sharded([put(weights[name]) for name in told["arguments"]])
answers = made.disassemble_into_single_device_arrays()
np.savez("answers.npz", x=X, w=W, b=B, **{
    f"{place}_{device}": np.asarray(one)
    for place, each in enumerate(answers) for device, one in enumerate(each)})
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder with the program and XLA's answers, and what was told."""
    folder = tmp_path_factory.mktemp("joined")
    (folder / "export.py").write_text(EXPORT)
    done = subprocess.run(
        [sys.executable, "export.py"], check=True, cwd=folder, stdout=subprocess.PIPE, text=True
    )
    return folder, json.loads(done.stdout.splitlines()[-1])


def test_a_devices_whole_way_gives_what_numpy_gives(made):
    folder, _ = made
    with np.load(folder / "answers.npz") as found:
        h = np.tanh(found["x"] @ found["w"] / 4 + found["b"])
        gathered = np.concatenate([h[:4], h[:4] + 1]) * found["b"]
        scattered = np.split(2 * h * gathered, 2)
        for device in (0, 1):
            for place, right in enumerate((h, gathered, scattered[device])):
                np.testing.assert_allclose(found[f"{place}_{device}"], right, rtol=1e-4, atol=1e-5)


def test_weights_made_larger_are_not_handed_from_part_to_part(made):
    _, told = made
    # A product; the hidden values and what is gathered of them; a result and what is summed.
    assert [len(outputs) for outputs in told["parts"]] == [1, 2, 2]


def test_what_the_driver_does_not_carry_out_stays_between_parts(made):
    _, told = made
    assert "bf16" in told["halves"]
    assert "collective_permute" in told["passed"]


def test_a_module_for_gpus_has_the_way_and_where_devices_meet(made, tmp_path):
    from iree.runtime import VmInstance, VmModule

    folder, _ = made
    program = load_program(folder / "net.mlirbc")
    compiled = compile_mesh(program, "cuda:sm_90", tmp_path / "net.mesh", CompileOptions())
    path = tmp_path / "net.mesh" / "parts.vmfb"
    signatures = Module.read(path).signatures
    assert str(signatures["main_joined"].inputs[0]) == "x: f32[8, 8]"
    assert VmModule.mmap(VmInstance(), str(path)).lookup_function(JOIN) is not None
    assert not any("one by one" in note for note in compiled.notes)
