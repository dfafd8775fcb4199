"""Sums of a matrix's columns, plain or of its rows times a vector, to a dispatch of their kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.gpu.tails import find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import COLUMNS_FORM, MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.total import Total, read_total

__all__ = ["LEAST_ROWS", "place_row", "rewrite_total"]

LEAST_ROWS = 16
"""Rows below which a thread of the compiler's that sums all of a column does so quickly."""
_FOUR = 4
_LARGEST = 2**31
_ELEMENTS = ("f16", "f32")
_WIDE = 4
"""The bit of `what` that stores f32."""


def rewrite_total(op: Any, library: Library) -> None:
    """Replace the sums of a `reduce` by a kernel, if one takes them; keep the answer."""
    total = read_total(op)
    if total is None:
        return
    origin = Origin(name=op.name, location=op.location)
    what, work = str(total), total.work  # Said now: nothing is left of them afterwards.
    library.answers.record(origin, what, work, _place(total, library))


def _place(total: Total, library: Library) -> Kernel | Declined:
    outer, rows, columns = total.sizes
    kinds = [str(each.type.element_type) for each in (total.source, total.value)]
    if kinds[0] not in _ELEMENTS or kinds[1] not in (kinds[0], "f32"):
        return Declined(reason=f"{kinds[0]} summed in {kinds[1]}")
    if rows < LEAST_ROWS:
        return Declined(reason=f"{rows} rows to sum")
    validate(total, "sum")
    what = _WIDE if kinds[1] == "f32" else 0
    values = {"n": columns, "k": rows, "factor_bits": bits(total.factor), "what": what}
    with ir.InsertionPoint(total.value.owner.operation), total.value.owner.operation.location:
        last = ir.RankedTensorType.get([outer, columns], total.value.type.element_type)
        made = _call(library, kinds[0], values, outer, [total.source], last)
        if isinstance(made, Declined):
            return made
        replace(total.value, made)
    return Kernel(name=f"columns_{kinds[0]}")


def place_row(
    value: Any, library: Library, sizes: tuple[int, int, int], operands: tuple[Any, Any]
) -> Kernel | Declined:
    """Replace products of single rows and matrices, and what follows them, by a kernel.

    Args:
        value: the products.
        library: where kernels come from.
        sizes: how many such products, columns, and the inside.
        operands: rows of so many elements, matrices that lie as [inside, columns].
    """
    batch, columns, inside = sizes
    left, right = operands
    element = left.type.element_type
    tail = find_finish(value, element, columns, library.answers)
    values = {"n": columns, "k": inside, **tail.folded}
    with ir.InsertionPoint(tail.last.owner.operation):
        last = ir.RankedTensorType.get([batch, columns], tail.last.type.element_type)
        reads = [right, left, *tail.reads(left).values()]
        made = _call(library, str(element), values, batch, reads, last)
        if isinstance(made, Declined):
            return made
        replace(tail.last, made)
    return Kernel(name=f"columns_by_vector_{element}")


def _call(
    library: Library,
    element: str,
    values: dict[str, int],
    batch: int,
    reads: list[Any],
    last: Any,
) -> Any | Declined:
    columns, inside = values["n"], values["k"]
    if not library.shares:
        return Declined(reason="no kernel for GPUs that share no memory")
    if columns % _FOUR:
        return Declined(reason=f"{columns} columns, not fours")
    if batch > MOST_GROUPS or batch * columns * inside >= _LARGEST:
        return Declined(reason=f"{batch} by {inside} by {columns} elements")
    groups = math.ceil(columns // _FOUR / COLUMNS_FORM.rooms)
    if groups > MOST_GROUPS:
        return Declined(reason=f"{columns} columns")
    shader = shaders.columns(COLUMNS_FORM, element, vector="factor_bits" not in values)
    return library.call(shader, (groups, 1, batch), values, reads, last)
