"""A portable artifact of JAX's with shardings to a module that can be partitioned, and its facts.

On jaxlib's bindings, which know Shardy's dialect; in the child (`shardy`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.exporters.entry import plain_entry
from edgec.exporters.mesh.calls import MARKERS, target_of
from edgec.exporters.mesh.groups import number_groups
from edgec.exporters.mesh.one_mesh import make_one_mesh
from edgec.exporters.mesh.tokens import plain_tokens
from edgec.toolchain.ir.functions import inside

__all__ = ["read"]


def read(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read one program.

    Args:
        request: `artifact` (a file), `output` (where the module goes), `plain` (where the same goes
            without the user's lines), `donating` (attributes of an argument whose memory is given
            away).

    Returns:
        `name`, `inputs` and `outputs` (shape, and MLIR's name of the elements), `given` (what the
        elements of the outputs are for JAX), `donated` (for each argument), `meshes` (of each that
        the program names, the axes in order), `placed` (of each input, and then of each output,
        which device has what the first, the second, ... of the mesh is said to have; an empty list
        where each has its own).
    """
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    with make_ir_context() as context, ir.Location.unknown():
        artifact = Path(request["artifact"]).read_bytes()
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        operations = [op.operation for op in module.body.operations]
        functions = [each for each in operations if each.name == "func.func"]
        names = [ir.StringAttr(each.attributes["sym_name"]).value for each in functions]
        main = functions[names.index("main")]
        given = plain_entry(ir, module, main)
        number_groups(module)
        plain_tokens(functions)
        _take_out_advice(functions)
        meshes = _meshes_of(main, "arg_attrs", len(main.regions[0].blocks[0].arguments))
        meshes += _meshes_of(main, "res_attrs", len(given))
        placed = make_one_mesh(module, functions)
        operations = [op.operation for op in module.body.operations]
        if placed:
            _close_results(main, operations)
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        found = {
            "name": ir.StringAttr(module.operation.attributes["sym_name"]).value,
            "inputs": _shapes(kind.inputs),
            "outputs": _shapes(kind.results),
            "given": given,
            "donated": _donated(main, len(kind.inputs), request["donating"]),
            "meshes": _meshes(operations),
            "placed": [placed.get(mesh, []) for mesh in meshes],
        }
        _write(module, Path(request["output"]))
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        _write(module, Path(request["plain"]))
        return found


def _take_out_advice(functions: Sequence[Any]) -> None:
    """Take out calls that only advise XLA: on several devices Shardy's notes are in their place."""
    from jaxlib.mlir import ir

    for function in functions:
        for operation in list(inside(function)):
            if target_of(ir, operation) in MARKERS:
                operation.results[0].replace_all_uses_with(operation.operands[0])
                operation.erase()


def _write(module: Any, path: Path) -> None:
    with path.open("wb") as file:
        module.operation.write_bytecode(file)


def _shapes(kinds: Sequence[Any]) -> list[Any]:
    from jaxlib.mlir import ir

    arrays = [ir.RankedTensorType(kind) for kind in kinds]
    return [[list(array.shape), str(array.element_type)] for array in arrays]


def _donated(main: Any, count: int, names: Sequence[str]) -> list[int]:
    from jaxlib.mlir import ir

    if "arg_attrs" not in main.attributes:
        return [0] * count
    return [
        int(any(name in notes for name in names))
        for notes in map(ir.DictAttr, ir.ArrayAttr(main.attributes["arg_attrs"]))
    ]


def _meshes_of(main: Any, name: str, count: int) -> list[str]:
    """The name of the mesh along which each argument or result is cut, or nothing."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    if name not in main.attributes:
        return [""] * count
    found = []
    for notes in map(ir.DictAttr, ir.ArrayAttr(main.attributes[name])):
        sharding = notes["sdy.sharding"] if "sdy.sharding" in notes else None  # noqa: SIM401
        mesh = None if sharding is None else sdy.TensorShardingAttr(sharding).mesh_or_ref
        found.append("" if mesh is None else str(ir.FlatSymbolRefAttr(mesh).value))
    return found


def _close_results(main: Any, operations: Sequence[Any]) -> None:
    """Have results whole of which nothing is said: JAX reads their cuts by any of its meshes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    mesh = next(
        ir.StringAttr(each.attributes["sym_name"]).value
        for each in operations
        if each.name == "sdy.mesh" and len(list(sdy.MeshAttr(each.attributes["mesh"]).axes))
    )
    kinds = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    notes: list[Any] = [ir.DictAttr.get({})] * len(kinds)
    if "res_attrs" in main.attributes:
        notes = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["res_attrs"])]
    whole = sdy.DimensionShardingAttr.get([], is_closed=True)
    for index, kind in enumerate(kinds):
        if "sdy.sharding" not in notes[index]:
            dims = [whole] * len(ir.RankedTensorType(kind).shape)
            kept = {each.name: each.attr for each in notes[index]}
            kept["sdy.sharding"] = sdy.TensorShardingAttr.get(mesh, dims)
            notes[index] = ir.DictAttr.get(kept)
    main.attributes["res_attrs"] = ir.ArrayAttr.get(notes)


def _meshes(operations: Sequence[Any]) -> list[list[list[Any]]]:
    """The axes of every mesh that has some, each list once."""
    from jaxlib.mlir.dialects import sdy

    found: list[list[list[Any]]] = []
    for each in operations:
        if each.name == "sdy.mesh":
            axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(each.attributes["mesh"]).axes)
            told = [[axis.name, axis.size] for axis in axes]
            if told and told not in found:
                found.append(told)
    return found
