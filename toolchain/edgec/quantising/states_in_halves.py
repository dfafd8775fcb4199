"""States that calls write into, place by place, to halves: a language model's keys and values.

A module imported only by what rewrites programs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.runtime.dtypes import DType
from edgec.toolchain.ir import write
from edgec.toolchain.ir.functions import entry_block, find_function, returns, set_types
from edgec.toolchain.program import STATE_FUNCTION, ProgramInfo, State

__all__ = ["halve_states", "written_states"]


def written_states(module: Any, info: ProgramInfo) -> tuple[str, ...]:
    """The states of f32 that calls leave as they are but for places which they write.

    What is computed anew from all of itself at every call would be rounded again each time; such
    states (recurrent layers, statistics) are not among them.
    """
    written: set[str] = set()
    others: set[str] = set()
    for function in info.functions:
        code = find_function(module, function.signature.name)
        arguments = _by_state(entry_block(code).arguments, function.arguments)
        for name, result in _by_state(next(returns(code)).operands, function.results).items():
            updates = _updates(arguments.get(name), result)
            if updates is None:
                others.add(name)
            elif updates:
                written.add(name)
    return tuple(
        spec.name
        for spec in info.states
        if spec.dtype is DType.F32 and spec.name in written and spec.name not in others
    )


def halve_states(
    module: Any, info: ProgramInfo, names: Sequence[str], *, moved: float = 0.0
) -> None:
    """Keep these states in f16, in place; what reads them gets them in f32 again.

    Args:
        module: the program, its calls inlined.
        info: its description, of the states as they were.
        names: of `written_states`.
        moved: what numbers are off by before they are rounded, as a part of themselves.
    """
    for function in info.functions:
        code = find_function(module, function.signature.name)
        arguments = _by_state(entry_block(code).arguments, function.arguments)
        end = next(returns(code))
        results = _by_state(end.operands, function.results)
        places = [i for i, role in enumerate(function.results) if isinstance(role, State)]
        for name in names:
            if name not in arguments:
                continue
            updates = _updates(arguments[name], results[name]) if name in results else []
            last = _halved(arguments[name], updates or [], moved)
            for place in places:
                if function.results[place] == State(name=name):
                    end.operands[place] = last
        _retyped(code)
    code = find_function(module, STATE_FUNCTION)
    end = next(returns(code))
    with ir.InsertionPoint(end), end.location:
        for place, spec in enumerate(info.states):
            if spec.name in names:
                end.operands[place] = write.convert(end.operands[place], ir.F16Type.get())
    _retyped(code)


def _by_state(values: Sequence[Any], roles: Sequence[Any]) -> dict[str, Any]:
    pairs = zip(values, roles, strict=True)
    return {role.name: value for value, role in pairs if isinstance(role, State)}


def _updates(argument: Any | None, result: Any) -> list[Any] | None:
    """What writes places of a state on its way, the first first; None where it is another array."""
    found: list[Any] = []
    while argument is None or result != argument:
        owner = result.owner
        if argument is None or isinstance(owner, ir.Block) or not _overwrites(owner.operation):
            return None
        found.append(owner.operation)
        result = owner.operation.operands[0]
    return found[::-1]


def _overwrites(op: Any) -> bool:
    """Whether an operation gives its first operand with some places written anew."""
    if op.name == "stablehlo.dynamic_update_slice":
        return True
    if op.name != "stablehlo.scatter" or len(op.results) != 1:
        return False
    (block,) = op.regions[0].blocks
    (given,) = block.operations[len(block.operations) - 1].operands
    return bool(given == block.arguments[1])


def _halved(argument: Any, updates: Sequence[Any], moved: float) -> Any:
    """The state's argument and what writes into it in f16; what the state is in the end."""
    half = ir.F16Type.get()
    argument.set_type(write.tensor(write.shape(argument), half))
    block = argument.owner
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        wide = write.convert(argument, ir.F32Type.get())
    argument.replace_all_uses_except(wide, wide.owner.operation)
    last = argument
    for op in updates:
        with ir.InsertionPoint(op), op.location:
            last = _written(op, last, moved)
            op.results[0].replace_all_uses_with(write.convert(last, ir.F32Type.get()))
        op.erase()
    return last


def _written(op: Any, state: Any, moved: float) -> Any:
    """The same operation on halves."""
    half = ir.F16Type.get()
    place = 1 if op.name == "stablehlo.dynamic_update_slice" else len(op.operands) - 1
    update = op.operands[place]
    if moved:
        factor = write.fill_like(update, 1.0 + moved, write.element(update))
        update = write.binary("multiply", update, factor)
    operands = [state, *list(op.operands)[1:]]
    operands[place] = write.convert(update, half)
    made = ir.Operation.create(
        op.name,
        results=[state.type],
        operands=operands,
        attributes={name: op.attributes[name] for name in op.attributes},
        regions=len(op.regions),
    )
    if op.regions:
        scalar = write.tensor((), half)
        block = ir.Block.create_at_start(made.regions[0], [scalar, scalar], [op.location] * 2)
        with ir.InsertionPoint(block):
            ir.Operation.create("stablehlo.return", operands=[block.arguments[1]])
    return made.results[0]


def _retyped(function: Any) -> None:
    block, end = entry_block(function), next(returns(function))
    set_types(function, range(len(block.arguments)), range(len(end.operands)))
