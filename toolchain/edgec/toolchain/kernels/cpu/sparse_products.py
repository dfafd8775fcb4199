"""A product by weights that are zeros for the most part, to a call of the CPU's kernel for these.

A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.known import evaluated
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.sparse_product import SparseProduct, sparse_kernel
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Kernel, Work
from edgec.toolchain.match.product import product_sizes

__all__ = ["MOST_DENSE", "MOST_DENSE_FEW", "place_sparse_product"]

MOST_DENSE = 0.25
"""The part of weights that are not zero up to which a product is done so; 0.29 is as quick."""

MOST_DENSE_FEW = 0.125
"""The same where fewer rows than a vector holds are multiplied; 0.14 is as quick for one row."""

_LEAST_WEIGHTS = 1 << 14
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A product `x @ matrix.T`, or `matrix @ x`.

    Attributes:
        matrix: rows are results.
        x: what it is multiplied by.
        m: its rows, or columns.
        is_left: whether the matrix stands on the left.
    """

    matrix: _Array
    x: Any
    m: int
    is_left: bool


def place_sparse_product(op: Any, library: Library, unit: VectorUnit, answers: Answers) -> None:
    """Put a kernel in the place of a `stablehlo.dot_general` by weights with many zeros."""
    found = _read(op)
    if found is None or found.matrix.size < _LEAST_WEIGHTS:
        return
    density = np.count_nonzero(found.matrix) / found.matrix.size
    # Nothing but zeros are weights that nobody has learnt yet.
    if not density or density > (MOST_DENSE if found.m >= unit.lanes else MOST_DENSE_FEW):
        return
    n, k = found.matrix.shape
    product = SparseProduct.cut(n, k, found.m, unit)
    starts, places, numbers = _rows(found.matrix, product.side)
    product = replace(product, numbers=len(numbers))
    f32, i32 = ir.F32Type.get(), ir.IntegerType.get_signless(32)
    with ir.InsertionPoint(op), op.location:
        plain = write.reshape(found.x, [k, found.m] if found.is_left else [found.m, k])
        made = library.call(
            f"edgec_sparse_{n}x{k}x{found.m}",
            sparse_kernel("NAME", product, unit),
            [
                plain if found.is_left else write.transpose(plain, [1, 0]),
                write.constant(starts, i32),
                write.constant(places * np.int32(found.m), i32),
                write.constant(numbers, f32),
            ],
            ir.RankedTensorType.get([n, found.m], f32),
        )
        turned = made if found.is_left else write.transpose(made, [1, 0])
        result = write.reshape(turned, write.shape(op.results[0]))
    work = Work(flops=2 * found.m * n * k, bytes=4 * (found.m * (n + k) + n * k))
    what = f"product by {density:.0%} of {n} x {k} weights, {found.m} rows, f32"
    answers.record(op, what, work, Kernel(name="sparse_product"))
    op.results[0].replace_all_uses_with(result)


def _read(op: Any) -> _Found | None:
    kinds = {str(element_type(value)) for value in (*op.operands, *op.results)}
    sizes = product_sizes(op) if kinds == {"f32"} else None
    if sizes is None or sizes[0] != 1:
        return None
    _, m, n, k, last = sizes
    left, right = op.operands
    weights = evaluated(right)
    if weights is not None:
        matrix = weights.reshape(n, k) if last else weights.reshape(k, n).T
        return _Found(matrix=matrix, x=left, m=m, is_left=False)
    weights = evaluated(left)
    if weights is None or last or len(write.shape(right)) != 2:
        return None
    return _Found(matrix=weights.reshape(m, k), x=right, m=n, is_left=True)


def _rows(matrix: _Array, multiple: int) -> tuple[_Array, _Array, _Array]:
    """Where each row begins, the places of its numbers, and these; filled up to a multiple."""
    starts, places, numbers = [0], [], []
    for row in matrix:
        (at,) = np.nonzero(row)
        fill = -len(at) % multiple
        places.append(np.concatenate([at, np.zeros(fill, at.dtype)]))
        numbers.append(np.concatenate([row[at], np.zeros(fill, row.dtype)]))
        starts.append(starts[-1] + len(at) + fill)
    return (
        np.array(starts, np.int32),
        np.concatenate(places).astype(np.int32),
        np.concatenate(numbers).astype(np.float32),
    )
