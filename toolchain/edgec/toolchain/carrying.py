"""Values that dispatches write in loops and branches to results of these: what the last turn wrote.

A loop carries each such value along, zeros before the first turn; a branch that is not taken gives
zeros. The loop or branch is made anew with more results; its blocks, and all in them, stay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Carried", "carry_out"]

_FOR, _WHILE, _IF = "scf.for", "scf.while", "scf.if"


@dataclass(frozen=True, kw_only=True)
class Carried:
    """A loop or branch, made anew.

    Attributes:
        operation: the new one; its first results are those of the old one.
        values: each value that was carried out of it, as it is inside, and as it comes out.
        arguments: the loop's own arguments inside, each with what it is before the first turn.
    """

    operation: Any
    values: tuple[tuple[Any, Any], ...]
    arguments: tuple[tuple[Any, Any], ...]


def carry_out(operation: Any, wanted: Callable[[Any], Sequence[Any]]) -> Carried | None:
    """Make a loop or branch anew, with what is wanted of it as further results.

    Args:
        operation: an operation of a block.
        wanted: what is wanted of an operation inside, as it stands there: some of its results.

    Returns:
        None where it is no loop or branch, or nothing in it is wanted.
    """
    if operation.name not in _MAKERS or not all(r.blocks for r in operation.regions):
        return None
    found: list[list[tuple[Any, Any]]] = []
    arguments: list[tuple[Any, Any]] = []
    for region in operation.regions:
        (block,) = region.blocks
        inner: list[tuple[Any, Any]] = []
        for op in [each.operation for each in block.operations]:
            carried = carry_out(op, wanted)
            if carried is None:
                inner += [(value, value) for value in wanted(op)]
            else:
                inner += carried.values
                arguments += carried.arguments
        found.append(inner)
    if not any(found):
        return None
    made = _MAKERS[operation.name](operation, [[value for _, value in each] for each in found])
    count = len(operation.results)
    inside = [first for each in found for first, _ in each]
    values = tuple(zip(inside, list(made.results)[count:], strict=True))
    for old, new in zip(operation.results, list(made.results)[:count], strict=True):
        old.replace_all_uses_with(new)
    if operation.name != _IF:
        bounds = 3 if operation.name == _FOR else 0
        own = list(made.regions[0].blocks[0].arguments)[1 if bounds else 0 :]
        arguments += zip(own, list(operation.operands)[bounds:], strict=False)
    operation.erase()
    return Carried(operation=made, values=values, arguments=tuple(arguments))


def _new_for(operation: Any, wanted: Sequence[Sequence[Any]]) -> Any:
    (values,) = wanted
    made = _made(operation, [*operation.operands, *_zeros(operation, values)], values)
    (block,) = made.regions[0].blocks
    _more_arguments(block, values)
    _end(block, values)
    return made


def _new_while(operation: Any, wanted: Sequence[Sequence[Any]]) -> Any:
    asked, turned = wanted
    # All go both ways, are used, and are values of their own: the compiler takes away arguments
    # that nobody uses, and results that are another's, and dies where question and turn have not
    # the same number of arguments.
    order, count = [*asked, *turned], len(asked)
    made = _made(operation, [*operation.operands, *_zeros(operation, order)], order)
    (before,), (after,) = (region.blocks for region in made.regions)
    carried = _more_arguments(before, order)
    end = list(before.operations)[-1].operation
    _kept(end, carried[:count])
    _end(before, [*_kept(end, asked), *_kept(end, carried[count:])])
    carried = _more_arguments(after, order)
    end = list(after.operations)[-1].operation
    _end(after, [*_kept(end, carried[:count]), *_kept(end, turned)])
    return made


def _new_if(operation: Any, wanted: Sequence[Sequence[Any]]) -> Any:
    one, other = wanted
    zeros = _zeros(operation, [*one, *other])
    made = _made(operation, list(operation.operands), [*one, *other])
    (then,), (otherwise,) = (region.blocks for region in made.regions)
    _end(then, [*one, *zeros[len(one) :]])
    _end(otherwise, [*zeros[: len(one)], *other])
    return made


_MAKERS = {_FOR: _new_for, _WHILE: _new_while, _IF: _new_if}


def _made(operation: Any, operands: Sequence[Any], more: Sequence[Any]) -> Any:
    """The operation with these operands and more results, holding the old one's blocks."""
    from iree.compiler import ir

    with ir.InsertionPoint(operation), operation.location:
        made = ir.Operation.create(
            operation.name,
            results=[value.type for value in (*operation.results, *more)],
            operands=list(operands),
            attributes={each.name: each.attr for each in operation.attributes},
            regions=len(operation.regions),
        )
    for old, new in zip(operation.regions, made.regions, strict=True):
        old.blocks[0].append_to(new)
    return made


def _more_arguments(block: Any, values: Sequence[Any]) -> list[Any]:
    from iree.compiler import ir

    where = ir.Location.unknown()
    return [block.add_argument(value.type, where) for value in values]


def _kept(end: Any, values: Sequence[Any]) -> list[Any]:
    """The same values, which the compiler takes for others that it does not know."""
    from iree.compiler import ir

    with ir.InsertionPoint(end), end.location:
        return [
            ir.Operation.create(
                "util.optimization_barrier", results=[value.type], operands=[value]
            ).result
            for value in values
        ]


def _end(block: Any, values: Sequence[Any]) -> None:
    """Let a block hand on more values at its end."""
    from iree.compiler import ir

    end = list(block.operations)[-1].operation
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create(end.name, operands=[*end.operands, *values])
    end.erase()


def _zeros(operation: Any, values: Sequence[Any]) -> list[Any]:
    """Zeros of the values' types, before an operation."""
    from iree.compiler import ir

    found = []
    with ir.InsertionPoint(operation), operation.location:
        for value in values:
            element = ir.RankedTensorType(value.type).element_type
            is_integer = isinstance(element, ir.IntegerType)
            zero = ir.IntegerAttr.get(element, 0) if is_integer else ir.FloatAttr.get(element, 0.0)
            attribute = ir.DenseElementsAttr.get_splat(value.type, zero)
            found.append(
                ir.Operation.create(
                    "arith.constant", results=[value.type], attributes={"value": attribute}
                ).result
            )
    return found
