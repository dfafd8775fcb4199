"""A product of matrices as a program computes it: sizes, and where both sides lie in memory.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import element_type, numbers_of, shape_of
from edgec.toolchain.ir.views import Digit, Strided, before, dense, joined
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description
from edgec.toolchain.match.indices import Index, fewest, refined

__all__ = ["MatrixProduct", "Side", "axes_of", "read_product", "scattered"]

_BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i32": 32, "i8": 8}
_NARROW = ("f16", "bf16")


@dataclass(frozen=True, kw_only=True)
class Side:
    """Where one side's elements lie: at `start` plus each index times its step.

    Attributes:
        value: whose memory it is, dense.
        start: where the first element lies.
        batch: steps of the indices of the batch; 0 where all share a matrix.
        own: step along the rows of the left side, or the columns of the right one.
        inner: step along what is summed.
    """

    value: Any
    start: int
    batch: tuple[int, ...]
    own: int
    inner: int

    @property
    def element(self) -> str:
        """The type of the elements (`f16`)."""
        return str(element_type(self.value))


@dataclass(frozen=True, kw_only=True)
class MatrixProduct(Description):
    """For each matrix of a batch, [m, k] times [k, n], dense in the result.

    Attributes:
        batch: sizes of the indices of the batch, the outermost first; none for one product.
        m, n, k: rows, columns, and what is summed.
        left, right: the sides, of one element type.
        value: the result; the sums are rounded to its type.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    left: Side
    right: Side
    value: Any

    @property
    def count(self) -> int:
        """How many products."""
        return math.prod(self.batch)

    @property
    def element(self) -> str:
        """The type of what is multiplied."""
        return self.left.element

    @property
    def work(self) -> Work:
        """What it computes, and what must be read and written."""
        bits = 0
        for side, own in ((self.left, self.m), (self.right, self.n)):
            held = zip(self.batch, side.batch, strict=True)
            held_by = math.prod(n for n, step in held if step)
            bits += held_by * own * self.k * _BITS.get(side.element, 32)
        bits += self.count * self.m * self.n * _BITS.get(str(element_type(self.value)), 32)
        return Work(flops=2 * self.count * self.m * self.n * self.k, bytes=bits // 8)

    def __str__(self) -> str:
        """In a few words: `product: 12 of 128 x 64 by 64 x 128, f16`."""
        many = f"{self.count} of " if self.batch else ""
        return f"product: {many}{self.m} x {self.k} by {self.k} x {self.n}, {self.element}"

    @property
    def operands(self) -> tuple[Any, ...]:
        """The values that it reads."""
        return (self.left.value, self.right.value)

    @property
    def results(self) -> tuple[Any, ...]:
        """The value that it computes."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The numbers of the result from those of both sides."""
        left, right = inputs
        sides = []
        for side, array, own in ((self.left, left, self.m), (self.right, right, self.n)):
            flat = np.ascontiguousarray(array).reshape(-1)[side.start :]
            steps = [n * flat.itemsize for n in (*side.batch, side.own, side.inner)]
            sizes = (*self.batch, own, self.k)
            sides.append(np.lib.stride_tricks.as_strided(flat, sizes, steps))
        sums = sides[0] @ np.swapaxes(sides[1], -1, -2)
        return (sums.reshape([size or 0 for size in shape_of(self.value)]),)


def read_product(op: Any) -> MatrixProduct | str:
    """The product that a `stablehlo.dot_general` is, or in a few words why it is none."""
    (value,) = op.results
    if any(not size for each in (*op.operands, value) for size in shape_of(each)):
        return "sizes that are not known"
    axes = axes_of(op)
    views = _views(op, axes)
    if views is None:
        return "a side whose rows have no single step in memory"
    left, right = views
    batch_count = len(axes[0][0])
    indices: list[Index] = []
    for axis in range(batch_count):
        size = shape_of(op.operands[0])[axes[0][0][axis]] or 0
        parts = refined(size, [left.axes[axis], right.axes[axis]])
        if parts is None:
            return "a batch that the two sides cut differently"
        indices += parts
    shared = fewest(indices)
    m, n = (
        math.prod(shape_of(operand)[axis] or 0 for axis in own)
        for operand, (_, own, _) in zip(op.operands, axes, strict=True)
    )
    k = math.prod(shape_of(op.operands[0])[axis] or 0 for axis in axes[0][2])

    def placed(view: Strided, which: int) -> Side:
        return Side(
            value=view.value,
            start=view.start,
            batch=tuple(index.steps[which] for index in shared),
            own=_step(view.axes[-2]),
            inner=_step(view.axes[-1]),
        )

    sides = [placed(left, 0), placed(right, 1)]
    if n == 1 and m > 1:
        # A vector on the right: its rows lie as the columns of one row would.
        sides, m, n = sides[::-1], 1, m
    return MatrixProduct(
        batch=tuple(index.size for index in shared),
        m=m,
        n=n,
        k=k,
        left=sides[0],
        right=sides[1],
        value=value,
    )


def axes_of(op: Any) -> list[tuple[list[int], list[int], list[int]]]:
    """For each side of a `stablehlo.dot_general`: axes of the batch, of its own, and summed."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    axes = []
    for side, operand in zip(("lhs", "rhs"), op.operands, strict=True):
        batch = numbers.get(f"{side}_batching_dimensions", [])
        inner = numbers.get(f"{side}_contracting_dimensions", [])
        own = [i for i in range(len(shape_of(operand))) if i not in (*batch, *inner)]
        axes.append((batch, own, inner))
    return axes


def scattered(op: Any) -> list[int]:
    """Which sides of a product, by number, have rows without a single step in memory."""
    return [
        number
        for number, (operand, axes) in enumerate(zip(op.operands, axes_of(op), strict=True))
        if _furthest(_whole(operand, axes), str(element_type(operand))) is None
    ]


def _whole(operand: Any, axes: tuple[list[int], list[int], list[int]]) -> Strided:
    """An operand as it lies, its own axes as one and those that are summed as one."""
    batch, own, inner = axes
    sizes = [size or 0 for size in shape_of(operand)]
    steps = dense(sizes)

    def run(axis: int) -> list[Digit]:
        return [Digit(size=sizes[axis], step=steps[axis])] if sizes[axis] > 1 else []

    return Strided(
        value=operand,
        start=0,
        axes=(
            *(tuple(run(axis)) for axis in batch),
            joined([digit for axis in own for digit in run(axis)]),
            joined([digit for axis in inner for digit in run(axis)]),
        ),
    )


def _views(
    op: Any, axes: Sequence[tuple[list[int], list[int], list[int]]]
) -> tuple[Strided, Strided] | None:
    """Both sides, in the narrowest type that they share, as far back as they have single steps."""
    plain: list[Strided] = []
    narrow: list[Strided | None] = []
    for operand, each in zip(op.operands, axes, strict=True):
        view = _whole(operand, each)
        same = _furthest(view, str(element_type(operand)))
        if same is None:
            return None
        plain.append(same)
        found = [_furthest(view, kind) for kind in _NARROW]
        narrow.append(next((each for each in found if each is not None), None))
    one, two = narrow
    if one is not None and two is not None:
        kinds = [str(element_type(view.value)) for view in (one, two)]
        if kinds[0] == kinds[1]:
            return one, two
    return plain[0], plain[1]


def _furthest(view: Strided, element: str) -> Strided | None:
    """The furthest view back of this element type with single steps, seen through widenings."""
    best = view if _is_single(view) and str(element_type(view.value)) == element else None
    while True:
        further = before(view, converts=True)
        if further is None:
            return best
        now, then = (str(element_type(each.value)) for each in (view, further))
        if now != then and not (now == "f32" and then in _NARROW):
            return best  # a rounding, which is a part of the program's meaning
        view = further
        if _is_single(view) and then == element:
            best = view


def _is_single(view: Strided) -> bool:
    own, inner = view.axes[-2:]
    return view.scale == 1.0 and len(own) < 2 and len(inner) < 2


def _step(run: tuple[Digit, ...]) -> int:
    return run[0].step if run else 1
