"""A portable artifact of JAX's with shardings to a module that can be partitioned, and its facts.

On jaxlib's bindings, which know Shardy's dialect; in the child (`shardy`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.exporters.entry import plain_entry
from edgec.exporters.mesh.one_mesh import make_one_mesh

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
        the program names, the axes in order).
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
        make_one_mesh(module, functions)
        operations = [op.operation for op in module.body.operations]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        found = {
            "name": ir.StringAttr(module.operation.attributes["sym_name"]).value,
            "inputs": _shapes(kind.inputs),
            "outputs": _shapes(kind.results),
            "given": given,
            "donated": _donated(main, len(kind.inputs), request["donating"]),
            "meshes": _meshes(operations),
        }
        _write(module, Path(request["output"]))
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        _write(module, Path(request["plain"]))
        return found


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
