"""A `dot_general` to a dispatch of the product kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.choice import MULTIPROCESSORS, choose
from edgec.toolchain.kernels.cuda.library import Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import find_tail
from edgec.toolchain.match.product import LEAST_WORK, product_sizes

__all__ = ["rewrite_product"]

ELEMENTS = ("f16", "bf16", "f32")
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
    sizes = product_sizes(op)
    if sizes is None:
        return
    batch, m, n, k, turned = sizes
    if n % 8 or k % 8 or m * n * k * batch < LEAST_WORK:
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
