"""A product of two matrices that are both computed to a call of the CPU's kernel, or why not.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import element_type, shape_of
from edgec.toolchain.ir.standing import stand_for
from edgec.toolchain.ir.views import Digit, Strided, dense, joined
from edgec.toolchain.ir.weights import Weights, is_constant
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.plans import why_not_by_weights
from edgec.toolchain.kernels.cpu.source.product import Matrices, ProductKernel
from edgec.toolchain.kernels.cpu.source.rows import lanes_of
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.indices import Index, refined
from edgec.toolchain.match.look_up import read_pieces
from edgec.toolchain.match.matrix_product import MatrixProduct, Side, read_product
from edgec.toolchain.match.results import moved_result

__all__ = ["place_products", "takes"]

_LEAST_ROWS = 4
_LEAST_FLOPS = 1 << 16
_WORKED_OUT = "all of it is constant: worked out when the module is made"
"""The compiler does so by a module of its own, whose kernels have less of a stack than a target's:
one with a panel of packed columns ended it."""


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A kernel, what it reads, and the value that it writes."""

    kernel: ProductKernel
    sides: tuple[Any, ...]
    value: Any


@dataclass(frozen=True, kw_only=True)
class _LookedUp:
    """Matrices of a table.

    Attributes:
        table: where they lie, one behind the other.
        size: elements of one.
        places: their numbers, any integers.
    """

    table: Any
    size: int
    places: Any


def takes(count: int, m: int, k: int, n: int, unit: VectorUnit) -> bool:
    """Whether the kernel takes `count` products of f32 of [m, k] by [k, n], dense in the result."""
    large = 2 * count * m * k * n >= _LEAST_FLOPS
    return large and m >= _LEAST_ROWS and lanes_of(n, unit) is not None


def place_products(
    module: Any, library: Library, unit: VectorUnit, answers: Answers
) -> dict[Any, Declined]:
    """Put kernels in place of products that are none by a matrix of weights.

    Args:
        module: the program.
        library: where the kernels go.
        unit: the vector registers of the target.
        answers: where the answer to each is kept.

    Returns:
        Those left, with the reason.
    """
    refused: dict[Any, Declined] = {}
    weights = Weights(module)
    for op in list(inside(module.operation)):
        if op.name != "stablehlo.dot_general":
            continue
        found = read_product(op)
        if isinstance(found, str) or why_not_by_weights(op, found, weights) is None:
            continue  # The plans of products by weights come next, and say so or take it.
        placed = _place(found, unit)
        if all(weights.holds(side) and is_constant(side) for side in op.operands):
            placed = Declined(reason=_WORKED_OUT)
        if isinstance(placed, Declined):
            refused[op] = placed
            continue
        answers.record(op, str(found), found.work, Kernel(name="product"))
        validate(found, "product")
        _replace(found, placed, library)
    return refused


def _place(product: MatrixProduct, unit: VectorUnit) -> _Placed | Declined:
    """What computes a product on a CPU with these registers."""
    kinds = {product.left.element, product.right.element, str(element_type(product.value))}
    if kinds != {"f32"}:
        return Declined(reason=f"elements of {' and '.join(sorted(kinds))}")
    if product.work.flops < _LEAST_FLOPS:
        return Declined(reason="too little to do")
    last = moved_result(product.value, lambda view: _written(view, product, unit) is not None)
    found = _written(last, product, unit)
    if found is None:
        return Declined(reason=f"{product.m} rows and {product.n} columns")
    out, is_turned, lanes = found
    sides, m, n = (product.left, product.right), product.m, product.n
    if is_turned:  # The transposed product is of the same numbers.
        sides, m, n = sides[::-1], n, m
    left, right = sides
    table = _looked_up(right, product.batch)
    kernel = ProductKernel(
        batch=product.batch,
        m=m,
        n=n,
        inner=(Index(size=product.k, steps=(left.inner, right.inner)),),
        left=_of(left),
        right=_of(right) if table is None else replace(_of(right), size=_size(table.table)),
        out=out,
        lanes=lanes,
        unit=unit,
        looked_up=table is not None,
    )
    if table is None:
        return _Placed(kernel=kernel, sides=(left.value, right.value), value=last.value)
    with ir.InsertionPoint(product.value.owner.operation), product.value.owner.location:
        numbers = write.within(table.places, shape_of(table.table)[0] or 1)
        numbers = write.reshape(numbers, [_size(numbers)])
    return _Placed(kernel=kernel, sides=(left.value, table.table, numbers), value=last.value)


def _looked_up(side: Side, batch: tuple[int, ...]) -> _LookedUp | None:
    """The table that a side's matrices are copied from, one for each index of the batch."""
    found = read_pieces(side.value)
    if found is None or len(batch) != 1:
        return None
    size = _size(found.table) // (shape_of(found.table)[0] or 1)
    if side.batch != (size,) or side.start >= size or batch[0] * size != _size(side.value):
        return None
    return _LookedUp(table=found.table, size=size, places=found.places)


def _replace(product: MatrixProduct, placed: _Placed, library: Library) -> None:
    op, kernel = product.value.owner.operation, placed.kernel
    many = f"{product.count}x" if product.batch else ""
    with ir.InsertionPoint(op), op.location:
        result = library.call(
            f"edgec_matrices_{many}{kernel.m}x{kernel.k}x{kernel.n}",
            kernel.text("NAME"),
            placed.sides,
            placed.value.type,
        )
    stand_for(placed.value, result)


def _of(side: Side) -> Matrices:
    """One side."""
    return Matrices(
        size=_size(side.value),
        start=side.start,
        batch=side.batch,
        own=side.own,
    )


def _written(
    view: Strided, product: MatrixProduct, unit: VectorUnit
) -> tuple[Matrices, bool, int] | None:
    """The result's memory as matrices of a kernel, whether they are turned, and lanes.

    None where neither columns nor rows are neighbours, enough of them for a vector.
    """
    lies = _steps(view, product)
    if lies is None or 1 not in lies[1:]:
        return None
    batch, row, column = lies
    is_turned = column != 1
    rows, columns = (product.n, product.m) if is_turned else (product.m, product.n)
    lanes = lanes_of(columns, unit)
    if lanes is None or rows < _LEAST_ROWS:
        return None
    own = column if is_turned else row
    out = Matrices(size=_size(view.value), start=view.start, batch=batch, own=own)
    return out, is_turned, lanes


def _steps(view: Strided, product: MatrixProduct) -> tuple[tuple[int, ...], int, int] | None:
    """The result's steps by the batch, row and column; None where one has none."""
    cuts = _cuts([size or 0 for size in shape_of(product.value)], product)
    if cuts is None:
        return None
    batch, own = cuts
    rows, columns = (
        joined([digit for axis in part for digit in axis])
        for part in (view.axes[batch:own], view.axes[own:])
    )
    wanted = tuple(
        Digit(size=size, step=step)
        for size, step in zip(product.batch, dense(product.batch), strict=True)
    )
    lies = joined([digit for axis in view.axes[:batch] for digit in axis])
    indices = refined(product.count, [lies, wanted])
    if indices is None or [index.size for index in indices] != list(product.batch):
        return None
    if len(rows) != 1 or len(columns) != 1:
        return None
    return tuple(index.steps[0] for index in indices), rows[0].step, columns[0].step


def _cuts(sizes: list[int], product: MatrixProduct) -> tuple[int, int] | None:
    """How many axes of a result are the batch's, and where those of columns begin."""
    for batch in range(len(sizes) + 1):
        for own in range(batch, len(sizes) + 1):
            parts = [math.prod(each) for each in (sizes[:batch], sizes[batch:own], sizes[own:])]
            if parts == [product.count, product.m, product.n]:
                return batch, own
    return None


def _size(value: Any) -> int:
    return math.prod(size or 0 for size in shape_of(value))
