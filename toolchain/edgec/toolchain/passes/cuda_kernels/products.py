"""A `dot_general` to a dispatch of the product kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.passes.cuda_kernels.choice import MULTIPROCESSORS, choose
from edgec.toolchain.passes.cuda_kernels.library import Library, replace
from edgec.toolchain.passes.cuda_kernels.tails import find_tail
from edgec.toolchain.passes.dynamic_shapes.reading import numbers_of
from edgec.toolchain.passes.graph import shape

__all__ = ["rewrite_product", "sum_in_f32"]

ELEMENTS = ("f16", "bf16", "f32")
_LEAST_WORK = 1 << 20
_LARGE_PROGRAMS = MULTIPROCESSORS


def rewrite_product(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if it is a product that one takes."""
    if op.name != "stablehlo.dot_general":
        return
    left, right = op.operands
    (value,) = op.results
    element = left.type.element_type
    static = all(v.type.has_static_shape for v in (left, right, value))
    if not static or str(element) not in ELEMENTS or right.type.element_type != element:
        return
    if str(value.type.element_type) not in (str(element), "f32"):
        return
    sizes = _sizes(op)
    if sizes is None:
        return
    batch, m, n, k, turned = sizes
    if n % 8 or k % 8 or m * n * k * batch < _LEAST_WORK:
        return
    if max(m * k, k * n, m * n) * batch >= 2**31:
        return
    tail = find_tail(value, element, n)
    wide = tail.what & 4
    form = "nt" if turned else "nn"
    large = f"product_{form}_large_{element}"
    choice = choose(
        m, n, k, batch=batch, f32=str(element) == "f32", large=large in library.index and not wide
    )
    kernel = f"product_{form}_{choice.form}_{element}"
    with ir.InsertionPoint(tail.last.owner.operation):
        flat = ir.RankedTensorType.get([batch, m, n], tail.last.type.element_type)
        tensors = [left, right, tail.bias or left, tail.other or left]
        f32 = ir.F32Type.get()
        if choice.form == "large":
            programs = min(choice.tiles, _LARGE_PROGRAMS)
            room = programs * library.index[kernel]["scratch"]
            scratch = ir.RankedTensorType.get([room], ir.IntegerType.get_signless(8))
            results = library.call(
                kernel, (programs, 1, 1), [m, n, k, tail.what], tensors, [flat, scratch]
            )
        else:
            room = choice.tiles * choice.parts * choice.rows * choice.columns
            work = ir.RankedTensorType.get([room if choice.parts > 1 else 1], f32)
            part = choice.steps * choice.inner
            numbers = [m, n, k, part, m * k, k * n, library.slot(), tail.what]
            grid = (choice.tiles, choice.parts, batch)
            results = library.call(kernel, grid, numbers, tensors, [flat, work])
        replace(tail.last, results[0])


def sum_in_f32(op: Any) -> None:
    """Let the compiler sum in f32 what no kernel takes; it sums f16 in f16 otherwise."""
    (value,) = op.results
    element = value.type.element_type
    if str(element) not in ELEMENTS[:2] or any(v.type.element_type != element for v in op.operands):
        return
    value.set_type(ir.RankedTensorType.get(value.type.shape, ir.F32Type.get()))
    with ir.InsertionPoint.after(op):
        kind = ir.RankedTensorType.get(value.type.shape, element)
        back = ir.Operation.create("stablehlo.convert", results=[kind], operands=[value])
    value.replace_all_uses_except(back.result, back)


def _sizes(op: Any) -> tuple[int, int, int, int, bool] | None:
    """Batch, rows, columns, inner size, whether the right side lies as [n, k]; None if neither."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    left, right = (list(shape(v)) for v in op.operands)
    count = len(numbers.get("lhs_batching_dimensions", []))
    order = list(range(count))
    if numbers.get("lhs_batching_dimensions", []) != order:
        return None
    if numbers.get("rhs_batching_dimensions", []) != order:
        return None
    inner_left = numbers.get("lhs_contracting_dimensions", [])
    inner_right = numbers.get("rhs_contracting_dimensions", [])
    inside = len(inner_left)
    if not inside or inner_left != list(range(len(left) - inside, len(left))):
        return None
    last = inner_right == list(range(len(right) - inside, len(right)))
    first = inner_right == list(range(count, count + inside))
    if not last and not first:
        return None
    batch, k = math.prod(left[:count]), math.prod(left[len(left) - inside :])
    m, n = math.prod(left[count : len(left) - inside]), math.prod(right[count:]) // max(k, 1)
    # With both true there are no columns of its own: a vector, which the compiler does well.
    return None if last and first else (batch, m, n, k, last)
