"""A `dot_general` to a dispatch of the product kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.filled import filled_finish
from edgec.toolchain.kernels.gpu.tails import Finish, find_finish
from edgec.toolchain.kernels.gpu.tiles import ProductKey
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin, Work
from edgec.toolchain.kernels.vulkan.choice import choose
from edgec.toolchain.kernels.vulkan.columns import LEAST_ROWS, place_row
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.product import LEAST_WORK, product_sizes

__all__ = ["rewrite_product"]

_FOUR = 4


def rewrite_product(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it; keep the answer."""
    origin = Origin(name=op.name, location=op.location)
    library.answers.record(origin, "product", Work(), _place(op, library))


def _place(op: Any, library: Library) -> Kernel | Declined:
    left, right = op.operands
    (value,) = op.results
    element = left.type.element_type
    multiple = library.multiple(element)
    if not all(v.type.has_static_shape for v in (left, right, value)):
        return Declined(reason="sizes that are not known")
    kind = str(value.type.element_type)
    if not multiple or right.type.element_type != element or kind not in (str(element), "f32"):
        return Declined(reason=f"{element} by {right.type.element_type} summed in {kind}")
    sizes = product_sizes(op)
    if sizes is None:
        return Declined(reason="operands that do not lie row by row")
    batch, m, n, k, turned = sizes
    if m == 1 and not turned and k >= LEAST_ROWS and n % _FOUR == 0 and library.shares:
        return place_row(value, library, (batch, n, k), (left, right))
    more = -n % multiple
    if k % multiple or more > n:
        return Declined(reason=f"{k} by {n} elements, not multiples of {multiple}")
    if m * n * k * batch < LEAST_WORK:
        return Declined(reason="too little to do")
    if library.leaves_even(m, n, k):
        return Declined(reason=f"{m} by {k} by {n}, which the compiler cuts into even tiles")
    matrix = library.multiplies(element)
    if matrix and (turned or batch > 1):
        return Declined(reason="no kernel of matrix units for a turned matrix or a batch")
    if max(m * k, k * n, m * n) * batch >= 2**31 or batch > MOST_GROUPS:
        return Declined(reason="2^31 elements or more")
    key = str(
        ProductKey(
            batch=batch, m=m, k=k, n=n, layout="nt" if turned else "nn", element=str(element)
        )
    )
    choice = choose(
        library.gpu,
        (m, n + more, k),
        batch=batch,
        matrix=matrix,
        usual=not library.compiles,
        wanted=library.tiles.get(key),
    )
    if choice.tiles > MOST_GROUPS:
        return Declined(reason=f"{choice.tiles} tiles")
    tail = find_finish(value, element, n, library.answers)
    if more and tail.other is not None:
        # It has the columns that there are, not those added to fill a piece of memory.
        tail = Finish(total=value, columns=n, last=value)
    name = "product_nt" if turned else "product_nn"
    with ir.InsertionPoint(tail.last.owner.operation):
        if more:
            right = _filled(right, (batch, n, k) if turned else (batch, k, n), more, turned=turned)
        sizes_there = (batch, m, n + more, k)
        steps = {"a_step": m * k, "b_step": k * (n + more)}
        wide = filled_finish(tail, more)
        total = library.sum(name, element, choice, sizes_there, steps, (left, right), wide)
        if isinstance(total, Declined):
            return total
        replace(tail.last, write.slice_(total, (0, 0, 0), (batch, m, n)))
    return Kernel(name=f"{name}_{choice.word}_{element}", key=key)


def _filled(right: Any, sizes: tuple[int, int, int], more: int, *, turned: bool) -> Any:
    """A right side with so many columns of zeros behind its own; of weights they are made once."""
    zero = write.fill(0.0, (), right.type.element_type)
    high = (0, more, 0) if turned else (0, 0, more)
    return write.pad(write.reshape(right, sizes), zero, (0, 0, 0), high)
