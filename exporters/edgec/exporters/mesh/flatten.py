"""A program of calls and counted loops to one straight function, as Shardy's passes need it.

They leave the types inside loops as they were, and what devices say to each other can be carried
out between parts of a program, not within a loop. On jaxlib's bindings; in the child (`shardy`).
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["flatten"]

_MOST = 20_000
"""Operations that unrolled loops may have together; what has more stays a loop."""


def flatten(module: Any, main: Any, *, loops: bool) -> None:
    """Inline every call in `main` and write out every counted loop in it (`loops`), in place."""
    from jaxlib.mlir import ir

    functions = {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    block = main.regions[0].blocks[0]
    _inline(block, functions)
    if not loops:
        return
    room = _MOST
    blocks = list(_blocks(block))
    waiting = [
        op.operation
        for each in blocks
        for op in each.operations
        if op.operation.name == "stablehlo.while"
    ]
    while waiting:
        loop = waiting.pop()
        trips = _trips(loop)
        size = _size(loop)
        if trips is None or trips * size > room:
            continue
        room -= trips * size
        waiting += _unroll(loop, trips)
    for each in blocks:
        _slice_where_known(each)


def _blocks(block: Any) -> Iterator[Any]:
    """A block, and what devices do by hand in it (`shard_map`)."""
    yield block
    for op in block.operations:
        if op.operation.name == "sdy.manual_computation":
            yield from _blocks(op.operation.regions[0].blocks[0])


def _inline(block: Any, functions: dict[str, Any]) -> None:
    """Calls in a block, and in the regions of its operations, until there are none."""

    for op in list(block.operations):
        operation = op.operation
        called = _called(operation)
        if called is not None:
            callee = functions[called]
            body = callee.regions[0].blocks[0]
            # What is inlined may hold calls itself.
            _inline(body, functions)
            results, _ = _cloned(body, list(operation.operands), operation)
            for old, new in zip(operation.results, results, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()
            continue
        for region in operation.regions:
            for inner in region.blocks:
                _inline(inner, functions)


def _called(operation: Any) -> str | None:
    """The function that stands for an operation: of a call, and of what was CHLO (`shardy`)."""
    from jaxlib.mlir import ir

    if operation.name == "func.call":
        return str(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value)
    if operation.name != "stablehlo.composite":
        return None
    if not ir.StringAttr(operation.attributes["name"]).value.startswith("chlo."):
        return None
    return str(ir.FlatSymbolRefAttr(operation.attributes["decomposition"]).value)


def _cloned(body: Any, arguments: Sequence[Any], before: Any) -> tuple[list[Any], list[Any]]:
    """A block's operations once more, in front of another: what it returns, and what was made."""
    from jaxlib.mlir import ir

    known = dict(zip(body.arguments, arguments, strict=True))
    made: list[Any] = []
    returned: list[Any] = []
    for op in body.operations:
        operation = op.operation
        if operation.name in ("func.return", "stablehlo.return"):
            returned = [known.get(value, value) for value in operation.operands]
            break
        copy = operation.clone(ip=ir.InsertionPoint(before))
        _rename(copy.operation, known)
        known.update(zip(operation.results, copy.operation.results, strict=True))
        made.append(copy.operation)
    return returned, made


def _rename(operation: Any, known: dict[Any, Any]) -> None:
    """Let an operation, and those inside of it, use the new values."""
    for index, value in enumerate(operation.operands):
        if value in known:
            operation.operands[index] = known[value]
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                _rename(op.operation, known)


def _trips(loop: Any) -> int | None:
    """How often a loop runs that counts up to a constant; None where that is not known."""
    condition, body = (region.blocks[0] for region in loop.regions)
    last = list(condition.operations)[-1].operation
    compare = _owner(last.operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return None
    if "LT" not in str(compare.attributes["comparison_direction"]):
        return None
    places = {argument: index for index, argument in enumerate(condition.arguments)}
    counter = places.get(compare.operands[0])
    if counter is None:
        return None
    step = _owner(list(list(body.operations)[-1].operation.operands)[counter])
    if step is None or step.name != "stablehlo.add":
        return None
    sides = list(step.operands)
    if body.arguments[counter] not in sides:
        return None
    other = sides[1 - sides.index(body.arguments[counter])]
    numbers = [_number(loop.operands[counter]), _number(compare.operands[1]), _number(other)]
    if any(number is None for number in numbers):
        return None
    start, end, by = (int(number or 0) for number in numbers)
    return len(range(start, end, by)) if by > 0 else None


def _unroll(loop: Any, trips: int) -> list[Any]:
    """Write a loop out; the loops in what was written."""
    body = loop.regions[1].blocks[0]
    values = list(loop.operands)
    inner: list[Any] = []
    for _ in range(trips):
        values, made = _cloned(body, values, loop)
        inner += [operation for operation in made if operation.name == "stablehlo.while"]
    for old, new in zip(loop.results, values, strict=True):
        old.replace_all_uses_with(new)
    loop.erase()
    return inner


def _owner(value: Any) -> Any | None:
    from jaxlib.mlir import ir

    return value.owner if isinstance(value, ir.OpResult) else None


_FOLDED: dict[str, Callable[..., int]] = {
    "stablehlo.convert": lambda a: a,
    "stablehlo.reshape": lambda a: a,
    "stablehlo.add": lambda a, b: a + b,
    "stablehlo.subtract": lambda a, b: a - b,
    "stablehlo.multiply": lambda a, b: a * b,
    "stablehlo.maximum": max,
    "stablehlo.minimum": min,
    "stablehlo.clamp": lambda low, a, high: min(max(a, low), high),
    "stablehlo.select": lambda p, a, b: a if p else b,
}
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


def _number(value: Any) -> int | None:
    """A whole number without axes, worked out from constants; None where it is not known."""
    from jaxlib.mlir import ir

    owner = _owner(value)
    if owner is None or ir.RankedTensorType(value.type).shape:
        return None
    if owner.name == "stablehlo.constant":
        attribute = owner.attributes["value"]
        if not isinstance(attribute, ir.DenseIntElementsAttr) or not attribute.is_splat:
            return None
        return int(next(iter(attribute)))
    if owner.name not in _FOLDED and owner.name != "stablehlo.compare":
        return None
    if not isinstance(ir.RankedTensorType(value.type).element_type, ir.IntegerType):
        return None
    found = [_number(operand) for operand in owner.operands]
    numbers = [number for number in found if number is not None]
    if len(numbers) != len(found):
        return None
    if owner.name == "stablehlo.compare":
        written = str(owner.attributes["comparison_direction"])
        return int(next(c for n, c in _COMPARED.items() if f" {n}>" in written)(*numbers))
    return _FOLDED[owner.name](*numbers)


def _slice_where_known(block: Any) -> None:
    """Slices at places that are known, such as a layer's number, as slices at fixed places.

    Shardy's passes do not cut along the other axes of a slice whose place is computed.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    for op in list(block.operations):
        operation = op.operation
        if operation.name != "stablehlo.dynamic_slice":
            continue
        places = [_number(value) for value in list(operation.operands)[1:]]
        known = [place for place in places if place is not None]
        if len(known) != len(places):
            continue
        whole = ir.RankedTensorType(operation.operands[0].type).shape
        part = ir.RankedTensorType(operation.results[0].type).shape
        starts = [
            min(max(place, 0), size - length)
            for place, size, length in zip(known, whole, part, strict=True)
        ]
        ends = [start + length for start, length in zip(starts, part, strict=True)]
        with ir.InsertionPoint(operation), operation.location:
            made = stablehlo.SliceOp(operation.operands[0], starts, ends, [1] * len(starts))
        operation.results[0].replace_all_uses_with(made.result)
        operation.erase()


def _size(operation: Any) -> int:
    return 1 + sum(
        _size(op.operation)
        for region in operation.regions
        for block in region.blocks
        for op in block.operations
    )
