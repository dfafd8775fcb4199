"""Weights of f32 turned, once, so that what is summed lies together, where matrix units want it.

Hopper's units take TF32 only so. A kernel that reads weights as [k, n] turns each tile itself:
2048 x 2048 x 2048 takes 315 us on an H200 as [k, n] and 208 as [n, k].

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.ir.weights import follows_from_weights
from edgec.toolchain.kernels.cuda.library import Library
from edgec.toolchain.match.matrix_product import MatrixProduct, Side

__all__ = ["turned_weights", "with_inner_last"]


def with_inner_last(found: MatrixProduct, op: Any, library: Library) -> MatrixProduct:
    """The product with its right side as [n, k], if it is [k, n] and made of weights alone.

    Args:
        found: what `op` computes.
        op: before which the weights are turned.
        library: knows the GPU.
    """
    right, sizes = found.right, [found.k, found.n]
    is_dense = not found.batch and not right.start and (right.own, right.inner) == (1, found.n)
    if not is_dense or min(sizes) == 1 or math.prod(write.shape(right.value)) != math.prod(sizes):
        return found
    with ir.InsertionPoint(op), op.location:
        turned = turned_weights(right.value, sizes, library)
    if turned is None:
        return found
    return replace(found, right=Side(value=turned, start=0, batch=(), own=found.k, inner=1))


def turned_weights(value: Any, sizes: Sequence[int], library: Library) -> Any | None:
    """A value, read as these sizes, with its last two axes turned.

    None where the GPU has no use for it, or the value is not known before the first call.
    """
    if not library.sums_along_memory or str(element_type(value)) != "f32":
        return None
    if not follows_from_weights(value):
        return None
    *outer, row, column = range(len(sizes))
    return write.transpose(write.reshape(value, sizes), [*outer, column, row])
