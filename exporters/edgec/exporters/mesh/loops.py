"""Loops and branches in which devices speak to each other, or arrays are cut, as functions.

Shardy's last passes leave the types inside loops as they were, and what devices say to each other
is carried out between parts of a program. So what a loop repeats, and what a branch does, becomes a
function of its own (`take_out`), which these passes take as any other; what then turns out to be
computed by each device alone goes back (`put_back`), and the rest is a step of the route.

On jaxlib's bindings; in the child (`shardy`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edgec.exporters.mesh.calls import LOOP, target_of
from edgec.exporters.mesh.whole import sharding_of
from edgec.runtime.mesh.plan import CALLBACK, COLLECTIVES
from edgec.toolchain.ir.functions import inside

__all__ = ["kind_of", "put_back", "take_out"]

_KIND = "edgec.kind"
"""Of the custom call that stands for a loop or a branch: which."""
_FLOWS = ("stablehlo.while", "stablehlo.case", "stablehlo.if")
_SPOKEN = frozenset(f"stablehlo.{kind}" for kind in COLLECTIVES)


def take_out(module: Any, functions: Sequence[Any]) -> None:
    """Make functions of what loops and branches do, where devices may have to speak in them.

    Those within are taken out first, so that a function holds calls of others alone.
    """
    number = 0
    for function in functions:
        flows = [each for each in inside(function) if each.name in _FLOWS]
        for flow in reversed(flows):
            if _may_speak(flow):
                _take_out(module, flow, number)
                number += 1


def _may_speak(flow: Any) -> bool:
    """Whether devices speak in it, or it has to do with arrays that are cut."""
    from jaxlib.mlir import ir

    values = [*flow.operands, *flow.results]
    for operation in inside(flow):
        if operation.name in _SPOKEN or operation.name.startswith("sdy."):
            return True
        if target_of(ir, operation) in (LOOP, CALLBACK):
            return True
        values += [*operation.operands, *operation.results]
    return any(_is_cut(sharding_of(value)) for value in values)


def _is_cut(sharding: Any | None) -> bool:
    from jaxlib.mlir.dialects import sdy

    if sharding is None:
        return False
    dims = map(sdy.DimensionShardingAttr, sharding.dimension_shardings)
    return any(len(list(dim.axes)) for dim in dims)


def _is_taken_out(operation: Any) -> bool:
    from jaxlib.mlir import ir

    return target_of(ir, operation) == LOOP


def _captured(flow: Any) -> list[Any]:
    """The values from outside that its regions use, each once."""
    inner = {flow, *inside(flow)}
    found: list[Any] = []
    for operation in inside(flow):
        for operand in operation.operands:
            owner = operand.owner
            if hasattr(owner, "owner"):  # a block: whose operation is asked
                owner = owner.owner
            if getattr(owner, "operation", owner) not in inner and operand not in found:
                found.append(operand)
    return found


def kind_of(name: str) -> str:
    """What a loop or branch is in a way (`ways.FLOWS`), by the name of its operation."""
    return name.removeprefix("stablehlo.")


def _take_out(module: Any, flow: Any, number: int) -> None:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    is_loop = flow.name == "stablehlo.while"
    given = list(flow.operands) if is_loop else []
    wanted = [sharding_of(result) for result in flow.results]
    captured = _captured(flow)
    wanted_given = wanted if is_loop else []
    operands = [] if is_loop else [flow.operands[0]]
    with ir.InsertionPoint(flow), flow.location:
        operands += [_cut_as(v, s) for v, s in zip(given, wanted_given, strict=True)]
    operands += captured
    values = [*given, *captured]
    shardings = [*wanted_given, *map(sharding_of, captured)]
    names = []
    for place, region in enumerate(flow.regions):
        name = f"edgec_flow{number}_{place}"
        gives_bool = is_loop and place == 0
        results = [None] if gives_bool else wanted
        _as_function(module, name, region, (values, shardings), len(given), results)
        names.append(ir.FlatSymbolRefAttr.get(name))
    attributes = {
        "call_target_name": ir.StringAttr.get(LOOP),
        _KIND: ir.StringAttr.get(flow.name),
        "called_computations": ir.ArrayAttr.get(names),
        "has_side_effect": ir.BoolAttr.get(True),
    }
    noted: list[Any] = [each for each in wanted if each is not None]
    if noted:
        mesh = noted[0].mesh_or_ref
        attributes["sdy.sharding"] = sdy.TensorShardingPerValueAttr.get(
            [each or _whole(mesh, r) for each, r in zip(wanted, flow.results, strict=True)]
        )
    with ir.InsertionPoint(flow), flow.location:
        made = ir.Operation.create(
            "stablehlo.custom_call",
            results=[result.type for result in flow.results],
            operands=operands,
            attributes=attributes,
        )
    for old, new in zip(flow.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    flow.erase()


def _whole(mesh: Any, value: Any) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    rank = len(ir.RankedTensorType(value.type).shape)
    return sdy.TensorShardingAttr.get(
        mesh, [sdy.DimensionShardingAttr.get([], is_closed=True)] * rank
    )


def _cut_as(value: Any, wanted: Any | None) -> Any:
    """The value, cut as a loop carries it."""
    from jaxlib.mlir.dialects import sdy

    own = sharding_of(value)
    if not _is_cut(own) and not _is_cut(wanted):
        return value
    if wanted is None and own is not None:
        wanted = _whole(own.mesh_or_ref, value)
    return sdy.ReshardOp(value, wanted).result


def _as_function(
    module: Any,
    name: str,
    region: Any,
    given: tuple[Sequence[Any], Sequence[Any]],
    carried: int,
    results: Sequence[Any | None],
) -> None:
    """A region as a function of what it carries and of what it uses from outside."""
    from jaxlib.mlir import ir

    values, shardings = given
    old = region.blocks[0]
    kinds = [value.type for value in values]
    last = list(old.operations)[-1].operation
    made = ir.FunctionType.get(kinds, [value.type for value in last.operands])
    with ir.InsertionPoint(module.body), last.location:
        function = ir.Operation.create(
            "func.func",
            attributes={
                "function_type": ir.TypeAttr.get(made),
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
            },
            regions=1,
        )
    block = function.regions[0].blocks.append(*kinds, arg_locs=[last.location] * len(kinds))
    known = dict(zip(values[carried:], block.arguments[carried:], strict=True))
    known |= dict(zip(old.arguments, block.arguments[:carried], strict=True))
    point = ir.InsertionPoint(block)
    returned: list[Any] = []
    for op in old.operations:
        operation = op.operation
        if operation is last or operation == last:
            returned = [known.get(value, value) for value in operation.operands]
            break
        copy = operation.clone(ip=point).operation
        _rename(copy, known)
        known.update(zip(operation.results, copy.results, strict=True))
    function.attributes["arg_attrs"] = _notes(shardings)
    function.attributes["res_attrs"] = _notes(results)
    with point, last.location:
        ends = [_cut_as(value, want) for value, want in zip(returned, results, strict=True)]
        ir.Operation.create("func.return", operands=ends)


def _notes(shardings: Sequence[Any | None]) -> Any:
    from jaxlib.mlir import ir

    return ir.ArrayAttr.get(
        [ir.DictAttr.get({} if each is None else {"sdy.sharding": each}) for each in shardings]
    )


def _rename(operation: Any, known: Mapping[Any, Any]) -> None:
    """Let an operation, and those inside of it, use the new values."""
    for each in (operation, *inside(operation)):
        for index, value in enumerate(each.operands):
            if value in known:
                each.operands[index] = known[value]


def put_back(functions: Mapping[str, Any], *, speaking_too: bool = False) -> None:
    """Make loops and branches again of those that each device computes alone, in place.

    Functions of a loop within were made before those around it. With `speaking_too` all become
    loops and branches.
    """
    from jaxlib.mlir import ir

    speaking: dict[str, bool] = {}

    def speaks(name: str) -> bool:
        if name not in speaking:
            speaking[name] = any(
                operation.name in _SPOKEN
                or target_of(ir, operation) == CALLBACK
                or any(map(speaks, _called_by(operation)))
                for operation in inside(functions[name])
            )
        return speaking[name]

    # What stands within another loop is put together first, and the whole program last.
    for function in (*(f for n, f in functions.items() if n != "main"), functions["main"]):
        for operation in list(inside(function)):
            names = _called_by(operation)
            if names and (speaking_too or not any(map(speaks, names))):
                _put_back(operation, [functions[name] for name in names])


def _called_by(operation: Any) -> list[str]:
    """The functions that stand for a loop or branch; none of another operation."""
    from jaxlib.mlir import ir

    if not _is_taken_out(operation):
        return []
    called = ir.ArrayAttr(operation.attributes["called_computations"])
    return [str(ir.FlatSymbolRefAttr(each).value) for each in called]


def _put_back(operation: Any, called: Sequence[Any]) -> None:
    from jaxlib.mlir import ir

    kind = ir.StringAttr(operation.attributes[_KIND]).value
    is_loop = kind == "stablehlo.while"
    count = len(operation.results) if is_loop else 0
    operands = list(operation.operands)
    first = operands[: count or 1]
    captured = operands[len(first) :]
    with ir.InsertionPoint(operation), operation.location:
        made = ir.Operation.create(
            kind,
            results=[result.type for result in operation.results],
            operands=first,
            regions=len(called),
        )
    for region, function in zip(made.regions, called, strict=True):
        source = function.regions[0].blocks[0]
        kinds = [value.type for value in (first if is_loop else ())]
        block = region.blocks.append(*kinds, arg_locs=[operation.location] * len(kinds))
        known = dict(zip(source.arguments, [*block.arguments, *captured], strict=True))
        _copy(source, block, known)
    for old, new in zip(operation.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()


def _copy(source: Any, block: Any, known: dict[Any, Any]) -> None:
    from jaxlib.mlir import ir

    point = ir.InsertionPoint(block)
    for op in source.operations:
        operation = op.operation
        if operation.name == "func.return":
            ends = [known.get(value, value) for value in operation.operands]
            with point, operation.location:
                ir.Operation.create("stablehlo.return", operands=ends)
            return
        copy = operation.clone(ip=point).operation
        _rename(copy, known)
        known.update(zip(operation.results, copy.results, strict=True))
