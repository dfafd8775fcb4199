"""The child's part of partitioning: a whole program with shardings to the program of one device.

python -m edgec.exporters.mesh.shardy

Each line of its input is a JSON list of two files, a request and where the reply goes; it says a
line when that is written. Shardy's passes come with jaxlib. They abort the process on some
programs, so nobody imports this.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.exporters.mesh.artifact import read
from edgec.exporters.mesh.calls import target_of
from edgec.exporters.mesh.empty import make_empties_constant
from edgec.exporters.mesh.even import make_even, takes_even
from edgec.exporters.mesh.flatten import flatten
from edgec.exporters.mesh.groups import number_groups
from edgec.exporters.mesh.leading import lead
from edgec.exporters.mesh.loops import put_back, take_out
from edgec.exporters.mesh.one_mesh import make_fine
from edgec.exporters.mesh.sums import order_sums
from edgec.exporters.mesh.unsummed import (
    forget_unsummed,
    mark_sums,
    rename_marks,
    take_out_sums,
    write_out,
)
from edgec.exporters.mesh.whole import NotCut, make_whole
from edgec.runtime.mesh.plan import CALLBACK
from edgec.toolchain.ir.functions import inside

__all__ = ["main"]

_CLEAN = "builtin.module(symbol-dce,canonicalize,cse)"
_PROPAGATE = "builtin.module(sdy-propagation-pipeline)"
_RULES = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
_SPEAKING = (
    "builtin.module(func.func(sdy-insert-explicit-reshards{enable-full-version=true},"
    "sdy-reshard-to-collectives))"
)
_LOCAL = "builtin.module(sdy-convert-global-to-local)"
_SMALLEST = 1024
"""Constants of fewer bytes stay in the code, on every device."""


def partition(request: Mapping[str, Any]) -> dict[str, Any]:
    """Partition one program.

    Args:
        request: `source` (MLIR that jaxlib reads), `output`, `weights` (an .npz for the constants
            that are taken out, if `lift` says so), `axes` (of the mesh, in order), `shardings` (of
            the arguments that the caller wants cut: for each axis a list of names), and perhaps
            `shown` (where the same program goes as one that StableHLO's readers take: a portable
            artifact with loops in their places, without the user's lines).

    Returns:
        `arguments` and `results` (how each is cut), `lifted` (how many constants have become
        arguments at the end), `unsummed` (of each argument, then of each result the axes along
        which devices hold what is not summed yet), or `problem` and `place`, or `uneven`: the mesh
        does not divide an argument as it is to be cut.
    """
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir

    axes: dict[str, int] = dict(request["axes"])
    with make_ir_context() as context, ir.Location.unknown():
        module = _plain(ir.Module.parse(Path(request["source"]).read_bytes()))
        number_groups(module)
        mesh = _the_mesh(module, axes)
        if isinstance(mesh, dict):
            return mesh
        main = _functions(module)["main"]
        # One device that is here for the host's code alone has nobody to speak to in a loop.
        is_alone = math.prod(axes.values()) == 1 and _calls_host(module)
        flatten(module, main, loops=not is_alone)
        make_empties_constant(main)
        _run(module, _CLEAN)
        lifted = _lift(main, Path(request["weights"])) if request["lift"] else 0
        _shard(main, mesh, request["shardings"])
        if not takes_even(main, axes):
            return {"uneven": True}
        try:
            _run(module, _PROPAGATE)
            unsummed = [_unsummed(main, name) for name in ("arg_attrs", "res_attrs")]
            forget_unsummed(_functions(module).values())
            for function in _functions(module).values():
                make_even(function, axes)
            parts = make_fine(module, list(_functions(module).values()), mesh, axes)
            names = {axis: [part for part, _ in each] for axis, each in parts.items()}
            rename_marks(_functions(module).values(), names)
            take_out(module, [main])
            _run(module, _RULES)
            for function in _functions(module).values():
                make_whole(function)
            _run(module, _SPEAKING)
            sizes = {part: size for each in parts.values() for part, size in each}
            order_sums(_functions(module).values(), list(sizes))
            mark_sums(_functions(module).values())
            _run(module, _LOCAL)
            number_groups(module)
            take_out_sums(_functions(module).values())
            write_out(_functions(module).values(), sizes)
        except ir.MLIRError as error:
            return _problem(error)
        except NotCut as error:
            place = str(error.operation.location)
            return {"problem": f"{error} is of arrays that are cut", "place": place}
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        found = {
            "arguments": _shardings(main, "arg_attrs", kind.inputs, names),
            "results": _shardings(main, "res_attrs", kind.results, names),
            "lifted": lifted,
            "unsummed": unsummed,
        }
        for cuts in (found["arguments"], found["results"]):
            if isinstance(cuts, str):
                return {"problem": cuts, "place": ""}
        put_back(_functions(module))
        for function in _functions(module).values():
            lead(function)
        _forget(module)
        text = module.operation.get_asm(enable_debug_info=True)
        Path(request["output"]).write_text(text)
        if "shown" in request:
            Path(request["shown"]).write_bytes(_shown(module, math.prod(axes.values())))
        del context
        return found


def _calls_host(module: Any) -> bool:
    from jaxlib.mlir import ir

    return any(target_of(ir, each) == CALLBACK for each in inside(module.operation))


def _shown(module: Any, devices: int) -> bytes:
    """The program of one of so many devices, for readers of StableHLO."""
    from jaxlib import _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    put_back(_functions(module), speaking_too=True)
    for name, function in _functions(module).items():
        if name != "main":
            function.erase()
    _run(module, "builtin.module(strip-debuginfo)")
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), devices)
    module.operation.attributes["mhlo.num_partitions"] = number
    version = stablehlo.get_current_version()
    return bytes(_jax.mlir.serialize_portable_artifact(module, version, False))


def _plain(module: Any) -> Any:
    """The program without CHLO (erf, square, top_k …), of which Shardy's last passes take nothing.

    jaxlib's writer of portable artifacts writes it as StableHLO; as passes it does not offer that.
    """
    from jaxlib import _jax
    from jaxlib.mlir.dialects import stablehlo

    if not any(op.name.startswith("chlo.") for op in inside(module.operation)):
        return module
    version = stablehlo.get_current_version()
    written = _jax.mlir.serialize_portable_artifact(module, version, True)
    return _jax.mlir.deserialize_portable_artifact(written)


def _run(module: Any, pipeline: str) -> None:
    from jaxlib.mlir import passmanager

    passmanager.PassManager.parse(pipeline).run(module.operation)


def _problem(error: Any) -> dict[str, Any]:
    first = error.error_diagnostics[0] if getattr(error, "error_diagnostics", None) else None
    if first is None:
        return {"problem": str(error).strip().splitlines()[-1], "place": ""}
    return {"problem": first.message.splitlines()[0], "place": str(first.location)}


def _functions(module: Any) -> dict[str, Any]:
    from jaxlib.mlir import ir

    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


def _the_mesh(module: Any, axes: Mapping[str, int]) -> str | dict[str, Any]:
    """The name of the program's mesh, which is made if it has none; a problem where it differs."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    found: list[tuple[str, Any]] = []
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            name = ir.StringAttr(op.operation.attributes["sym_name"]).value
            found.append((name, sdy.MeshAttr(op.operation.attributes["mesh"])))
    for name, mesh in found:
        own = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
        if own and own != dict(axes):
            told = ",".join(f"{axis}={size}" for axis, size in own.items())
            return {
                "problem": f"the model's own mesh is {told}",
                "place": "",
                "hint": f"write --mesh={told}",
            }
        if list(mesh.device_ids) not in ([], list(range(len(list(mesh.device_ids))))):
            return {
                "problem": f"the mesh {name} has its devices in an order of its own: "
                f"{list(mesh.device_ids)}",
                "place": "",
                "hint": "make it with jax.make_mesh of devices in their own order",
            }
    named = [name for name, mesh in found if len(list(mesh.axes))]
    if named:
        return named[0]
    text = ", ".join(f'"{name}"={size}' for name, size in axes.items())
    free = "mesh" if not found else "edgec_mesh"
    made = ir.Module.parse(f"sdy.mesh @{free} = <[{text}]>")
    made.body.operations[0].operation.clone(ip=ir.InsertionPoint.at_block_begin(module.body))
    return free


def _lift(main: Any, path: Path) -> int:
    """Make large constants of the function arguments at its end, their values into a file."""
    import numpy as np
    from jaxlib.mlir import ir

    block = main.regions[0].blocks[0]
    values: dict[Any, tuple[Any, np.ndarray]] = {}
    for op in list(block.operations):
        operation = op.operation
        if operation.name != "stablehlo.constant":
            continue
        attribute = operation.attributes["value"]
        if not isinstance(attribute, ir.DenseElementsAttr) or attribute.is_splat:
            continue
        try:
            value = np.array(attribute)
        except (TypeError, ValueError, BufferError):  # bf16 has no buffer: it stays
            continue
        if value.nbytes < _SMALLEST:
            continue
        if attribute not in values:
            kind = operation.results[0].type
            values[attribute] = (block.add_argument(kind, operation.location), value)
        operation.results[0].replace_all_uses_with(values[attribute][0])
        operation.erase()
    if values:
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs = [argument.type for argument in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(inputs, kind.results)
        )
        if "arg_attrs" in main.attributes:
            empty = [ir.DictAttr.get({})] * len(values)
            old = list(ir.ArrayAttr(main.attributes["arg_attrs"]))
            main.attributes["arg_attrs"] = ir.ArrayAttr.get([*old, *empty])
    np.savez(path, *(value for _, value in values.values()))
    return len(values)


def _shard(main: Any, mesh: str, shardings: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Give arguments the shardings that the caller wants."""
    from jaxlib.mlir import ir

    if not shardings:
        return
    arguments = main.regions[0].blocks[0].arguments
    count = len(arguments)
    old: list[Any] = [ir.DictAttr.get({})] * count
    if "arg_attrs" in main.attributes:
        old = list(ir.ArrayAttr(main.attributes["arg_attrs"]))
    for index, dims in shardings.items():
        rank = len(ir.RankedTensorType(arguments[int(index)].type).shape)
        each = [*dims, *[()] * (rank - len(dims))]
        text = ", ".join("{" + ", ".join(f'"{n}"' for n in names) + "}" for names in each)
        wanted = ir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{text}]>")
        kept = {a.name: a.attr for a in ir.DictAttr(old[int(index)])}
        old[int(index)] = ir.DictAttr.get({**kept, "sdy.sharding": wanted})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(old)


def _shardings(
    main: Any, name: str, kinds: Sequence[Any], parts: Mapping[str, Sequence[str]]
) -> list[list[list[str]]] | str:
    """How each argument or result is cut, by axes of these parts; a text where it has no form."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    notes = list(ir.ArrayAttr(main.attributes[name])) if name in main.attributes else []
    found: list[list[list[str]]] = []
    for index, kind in enumerate(kinds):
        rank = len(ir.RankedTensorType(kind).shape)
        own = ir.DictAttr(notes[index]) if notes else {}
        if "sdy.sharding" not in own:
            found.append([[] for _ in range(rank)])
            continue
        cuts = []
        sharding = sdy.TensorShardingAttr(own["sdy.sharding"])
        for dim in sharding.dimension_shardings:
            along = [sdy.AxisRefAttr(axis).name for axis in sdy.DimensionShardingAttr(dim).axes]
            names = []
            while along:
                axis = next((a for a, own in parts.items() if along[0] in own), along[0])
                own = list(parts.get(axis, ()))
                if along[: len(own)] != own or not own:
                    return f"an array is cut along a part of the axis {axis}"
                names.append(axis)
                along = along[len(own) :]
            cuts.append(names)
        found.append(cuts)
    return found


def _unsummed(main: Any, name: str) -> list[list[str]]:
    """Of each argument or result, as it is noted, the axes along which it is not summed yet."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    found: list[list[str]] = []
    notes = ir.ArrayAttr(main.attributes[name]) if name in main.attributes else ()
    for note in map(ir.DictAttr, notes):
        own = note["sdy.sharding"] if "sdy.sharding" in note else None  # noqa: SIM401
        axes = () if own is None else sdy.TensorShardingAttr(own).unreduced_axes
        found.append([sdy.AxisRefAttr(axis).name for axis in axes])
    return found


def _forget(module: Any) -> None:
    """Take Shardy's own notes out: nobody after this knows them."""
    from jaxlib.mlir import ir

    for op in list(module.body.operations):
        if op.operation.name == "sdy.mesh":
            op.operation.erase()
    for function in _functions(module).values():
        for name in ("arg_attrs", "res_attrs"):
            if name in function.attributes:
                del function.attributes[name]
        for operation in inside(function):
            for name in [n for n in operation.attributes if _is_shardys(n)]:
                del operation.attributes[name]
    for name in [n for n in module.operation.attributes if n.startswith("mhlo.")]:
        del module.operation.attributes[name]
    del ir


def _is_shardys(attribute: Any) -> bool:
    name = attribute if isinstance(attribute, str) else attribute.name
    return bool(name.startswith("sdy."))


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        request, reply = map(Path, json.loads(line))
        asked = json.loads(request.read_text())
        answer = read(asked) if "artifact" in asked else partition(asked)
        reply.write_text(json.dumps(answer))
        print("done", flush=True)


if __name__ == "__main__":
    main()
