"""A `dot_general` to a dispatch of the product kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import CLIPS_BY_NUMBERS, find_finish
from edgec.toolchain.kernels.vulkan.choice import choose
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.product import LEAST_WORK, product_sizes

__all__ = ["MOST_TILES", "rewrite_product"]

MOST_TILES = 65535
"""Workgroups along one axis that every device takes."""


def rewrite_product(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if it is a product that one takes."""
    if op.name != "stablehlo.dot_general":
        return
    left, right = op.operands
    (value,) = op.results
    element = left.type.element_type
    multiple = library.multiple(element)
    static = all(v.type.has_static_shape for v in (left, right, value))
    if not static or not multiple or right.type.element_type != element:
        return
    if str(value.type.element_type) not in (str(element), "f32"):
        return
    sizes = product_sizes(op)
    if sizes is None:
        return
    batch, m, n, k, turned = sizes
    if n % multiple or k % multiple or m * n * k * batch < LEAST_WORK:
        return
    halves = str(element) == "f16"
    if halves and (turned or batch > 1):
        return  # There is no kernel of matrix units for these.
    if max(m * k, k * n, m * n) * batch >= 2**31 or batch > MOST_TILES:
        return
    # Thin tiles of halves were right in convolutions on a GPU; in products nobody has looked.
    choice = choose(m, n, k, batch=batch, matrix=halves, without="thin")
    if choice.tiles > MOST_TILES:
        return
    tail, _ = find_finish(value, element, n, CLIPS_BY_NUMBERS)
    with ir.InsertionPoint(tail.last.owner.operation):
        kind = "product_nt" if turned else "product_nn"
        steps = (m * k, k * n)
        total = library.sum(kind, element, choice, (batch, m, n, k), steps, (left, right), tail)
        replace(tail.last, total)
