"""Numbers in order along an axis, or the first few of them, and what is moved along with them.

A module imported only by a pass that runs; it needs the compiler.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.elementwise import COMPARISONS, direction, elementwise
from edgec.toolchain.ir.evaluate import NotEvaluated, NotNamed, apply, dtype_of, evaluate
from edgec.toolchain.ir.read import is_float, shape_of, sorted_axis
from edgec.toolchain.kernels.spec import Declined, Work
from edgec.toolchain.match.order import Order

__all__ = ["Ordering", "is_of_each", "read_ordering"]

_FLOATS = (-math.nan, -math.inf, -2.0, -1e-3, -0.0, 0.0, 1e-3, 1.0, 2.5, math.inf, math.nan)
_INTEGERS = (-128, -2, -1, 0, 1, 2, 127)
_ORDERS = tuple(
    Order(descending=descending, is_unsigned=is_unsigned, by_bits=by_bits)
    for descending, is_unsigned, by_bits in itertools.product((False, True), repeat=3)
    if not (is_unsigned and by_bits)
)
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """Arrays of one shape that are sorted along an axis by one of them, equals in their order.

    Attributes:
        operands: the arrays, `ir.Value`s.
        key: which of them is sorted by.
        order: how.
        axis: along which axis.
        kept: how many are wanted along it, from the first on.
        moved: the results, in order: an operand by its number, or None for the places.
    """

    operands: tuple[Any, ...]
    key: int
    order: Order
    axis: int
    kept: int
    moved: tuple[int | None, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of what is sorted."""
        return tuple(size or 0 for size in shape_of(self.operands[self.key]))

    @property
    def work(self) -> Work:
        """A comparison for each step of a sort by halves, or each number of which few are kept."""
        count, along = math.prod(self.sizes), self.sizes[self.axis]
        few = 2 * self.kept < along
        width = sum(max(8, _width(value)) for value in self.operands) // 8
        steps = 1 if few else max(1, math.ceil(math.log2(max(along, 2))))
        return Work(flops=count * steps, bytes=2 * count * width)

    def __str__(self) -> str:
        """In a few words: `the first 5 of 64 x 1000, f32`."""
        shape = " x ".join(map(str, self.sizes))
        whole = self.kept == self.sizes[self.axis]
        what = "sort of" if whole else f"the first {self.kept} of"
        return f"{what} {shape}, {write.element(self.operands[self.key])}"


def read_ordering(op: Any) -> Ordering | Declined:
    """What a `stablehlo.sort` or a `chlo.top_k` orders, or why it is none of these orders."""
    if op.name == "chlo.top_k":
        (value,) = op.operands
        axis = len(shape_of(value)) - 1
        return Ordering(
            operands=(value,),
            key=0,
            order=Order(descending=True, by_bits=is_float(write.element(value))),
            axis=axis,
            kept=int(ir.IntegerAttr(op.attributes["k"]).value),
            moved=(0, None),
        )
    operands = tuple(op.operands)
    axis = sorted_axis(op)
    block = op.regions[0].blocks[0]
    used = {number // 2 for number, value in enumerate(block.arguments) if list(value.uses)}
    if len(used) != 1:
        return Declined(reason="sorted by several numbers")
    (key,) = used
    order = _order(block, *block.arguments[2 * key : 2 * key + 2])
    if order is None:
        return Declined(reason="sorted in an order of the program's own")
    return Ordering(
        operands=operands,
        key=key,
        order=order,
        axis=axis,
        kept=_kept(op, axis),
        moved=tuple(range(len(operands))),
    )


def _kept(op: Any, axis: int) -> int:
    """How many along the axis are read of the results, all of them from the first on."""
    whole = shape_of(op.operands[0])[axis] or 0
    reached = [_reached(result, axis, whole) for result in op.results]
    return min(whole, max(1, *reached))


def _reached(value: Any, axis: int, whole: int) -> int:
    """The end of what is read of a value along an axis, also of what is made of each element."""
    reached = 0
    for use in value.uses:
        user = use.owner.operation
        if user.name == "stablehlo.slice":
            reached = max(reached, write.integers(user, "limit_indices")[axis])
        elif is_of_each(user):
            reached = max(reached, _reached(user.results[0], axis, whole))
        else:
            return whole
    return reached


def is_of_each(op: Any) -> bool:
    """Whether an operation makes one element of each element of its one operand."""
    return elementwise(op) is not None and len(op.operands) == 1 and len(op.results) == 1


def _order(block: Any, left: Any, right: Any) -> Order | None:
    """The order that a comparison of two numbers is, found by trying it."""
    try:
        kind = np.dtype(dtype_of(left))
    except NotEvaluated:
        return None
    known: Sequence[Any] = _FLOATS if kind.kind == "f" else _INTEGERS
    if kind.kind == "b":
        known = (False, True)
    pairs = list(itertools.product(known, repeat=2))
    columns = [np.array(column).astype(kind) for column in zip(*pairs, strict=True)]
    try:
        found = _compared(block, dict(zip((left, right), columns, strict=True)))
    except (NotEvaluated, NotNamed):
        return None
    one, other = columns
    passed_over = np.zeros(found.shape, bool)
    if kind.kind == "f":
        # A comparison that is false of NaN says nothing of where it goes; numbers are in order.
        is_nan = np.isnan(one) | np.isnan(other)
        passed_over = is_nan if not found[is_nan].any() else passed_over
    for order in _ORDERS:
        if np.all((order.before(one, other) == found) | passed_over):
            return order
    return None


def _compared(block: Any, known: dict[Any, _Array]) -> _Array:
    """What a comparison gives for columns of numbers.

    Raises:
        NotEvaluated: an operation in it is none of those known.
        NotNamed: a value comes from outside, and is no constant.
    """
    *operations, end = (each.operation for each in block.operations)
    with np.errstate(all="ignore"):
        for op in operations:
            if len(op.results) != 1:
                raise NotEvaluated(op.name)
            for value in op.operands:
                if value not in known:
                    (known[value],) = evaluate([value], {})
            operands = [known[value] for value in op.operands]
            known[op.results[0]] = (
                _comparison(op, *operands) if _is_by_bits(op) else apply(op, operands)
            )
    (result,) = end.operands
    if result not in known:
        raise NotNamed("a value that it is not said to read")
    return np.broadcast_to(known[result], next(iter(known.values())).shape)


def _is_by_bits(op: Any) -> bool:
    """Whether floats are compared by all their bits.

    Raises:
        NotEvaluated: integers are compared as others than they are.
    """
    if op.name != "stablehlo.compare" or "compare_type" not in op.attributes:
        return False
    said, kind = str(op.attributes["compare_type"]), write.element(op.operands[0])
    if "UNSIGNED" in said and not (write.is_unsigned(kind) or kind.width == 1):
        raise NotEvaluated("a comparison of other integers than are given")
    return "TOTALORDER" in said


def _comparison(op: Any, left: _Array, right: _Array) -> _Array:
    bits = [Order(by_bits=True).placed(each) for each in (left, right)]
    return np.asarray(COMPARISONS[direction(op)](*bits))


def _width(value: Any) -> int:
    kind = write.element(value)
    return 64 if isinstance(kind, ir.ComplexType) else int(kind.width)
