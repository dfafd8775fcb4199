"""Collectives along inner axes as ones along the first, with the turning in the parts around them.

What devices give each other is then one piece of memory after the other, which is all that NCCL
knows; the axes are put where they belong by operations that are compiled. On jaxlib's bindings; in
the child (`shardy`).
"""

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["lead"]


def lead(function: Any) -> None:
    """Rewrite the gathers, scatters and exchanges of a function's own block."""
    for op in list(function.regions[0].blocks[0].operations):
        rewrite = _REWRITES.get(op.operation.name)
        if rewrite is not None:
            rewrite(op.operation)


def _gathered(operation: Any) -> None:
    """[.., s, ..] of each, together [n, .., s, ..], turned to [.., n s, ..]."""
    from jaxlib.mlir import ir

    axis = _number(operation, "all_gather_dim")
    if axis == 0:
        return
    with ir.InsertionPoint(operation), operation.location:
        given = operation.operands[0]
        shape, whole = _shape(given), _shape(operation.results[0])
        count = whole[axis] // shape[axis]
        one = _reshape(given, [1, *shape])
        made = _again(operation, one, [count, *shape], {"all_gather_dim": 0})
        _become(operation, _merge(made, axis, whole))


def _scattered(operation: Any) -> None:
    """[.., n s, ..] turned to [n, .., s, ..], of which each gets one."""
    from jaxlib.mlir import ir

    axis = _number(operation, "scatter_dimension")
    if axis == 0:
        return
    with ir.InsertionPoint(operation), operation.location:
        result = _shape(operation.results[0])
        turned = _part(operation.operands[0], axis, result[axis])
        made = _again(operation, turned, [1, *result], {"scatter_dimension": 0})
        _become(operation, _reshape(made, result))


def _exchanged(operation: Any) -> None:
    """[.., n s, ..] to [n, .., s, ..], pieces exchanged, and put together along another axis."""
    from jaxlib.mlir import ir

    axis, onto = _number(operation, "split_dimension"), _number(operation, "concat_dimension")
    if axis == onto == 0:
        return
    with ir.InsertionPoint(operation), operation.location:
        given = operation.operands[0]
        count = _number(operation, "split_count")
        turned = _part(given, axis, _shape(given)[axis] // count)
        first = {"split_dimension": 0, "concat_dimension": 0}
        made = _again(operation, turned, _shape(turned), first)
        _become(operation, _merge(made, onto, _shape(operation.results[0])))


_REWRITES: dict[str, Callable[[Any], None]] = {
    "stablehlo.all_gather": _gathered,
    "stablehlo.reduce_scatter": _scattered,
    "stablehlo.all_to_all": _exchanged,
}


def _shape(value: Any) -> list[int]:
    from jaxlib.mlir import ir

    return list(ir.RankedTensorType(value.type).shape)


def _number(operation: Any, name: str) -> int:
    from jaxlib.mlir import ir

    return int(ir.IntegerAttr(operation.attributes[name]).value)


def _kind(value: Any, shape: Sequence[int]) -> Any:
    from jaxlib.mlir import ir

    return ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)


def _reshape(value: Any, shape: Sequence[int]) -> Any:
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.reshape(_kind(value, shape), value)


def _part(value: Any, axis: int, size: int) -> Any:
    """[.., n size, ..] to [n, .., size, ..]."""
    from jaxlib.mlir.dialects import stablehlo

    shape = _shape(value)
    apart = _reshape(value, [*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :]])
    rest = [place for place in range(len(shape) + 1) if place != axis]
    return stablehlo.transpose(apart, [axis, *rest])


def _merge(value: Any, axis: int, shape: Sequence[int]) -> Any:
    """[n, .., s, ..] to [.., n s, ..]."""
    from jaxlib.mlir.dialects import stablehlo

    order = list(range(1, len(shape) + 1))
    order.insert(axis, 0)
    return _reshape(stablehlo.transpose(value, order), shape)


def _again(operation: Any, given: Any, shape: Sequence[int], axes: dict[str, int]) -> Any:
    """The same collective of another array, along other axes; its region moves over."""
    from jaxlib.mlir import ir

    attributes = {name: operation.attributes[name] for name in operation.attributes}
    long = ir.IntegerType.get_signless(64)
    attributes |= {name: ir.IntegerAttr.get(long, axis) for name, axis in axes.items()}
    made = ir.Operation.create(
        operation.name,
        results=[_kind(given, shape)],
        operands=[given],
        attributes=attributes,
        regions=len(operation.regions),
    )
    for old, new in zip(operation.regions, made.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)
    return made.results[0]


def _become(operation: Any, value: Any) -> None:
    operation.results[0].replace_all_uses_with(value)
    operation.erase()
