"""What a step of a loop need not do itself: constants, and products of what it does not carry.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.read import call_target, numbers_of
from edgec.toolchain.kernels.cpu.source.epilogue import BINARY, UNARY
from edgec.toolchain.match.loop import blocks, counted

__all__ = ["can_be_one_kernel", "hoist", "is_inside", "is_known"]

_LEAST_TURNS = 4
_SCALARS = ("stablehlo.maximum", "stablehlo.minimum", "stablehlo.and", "stablehlo.or")
_KNOWN = frozenset(
    {
        *UNARY,
        *BINARY,
        *_SCALARS,
        "stablehlo.broadcast_in_dim",
        "stablehlo.clamp",
        "stablehlo.compare",
        "stablehlo.concatenate",
        "stablehlo.constant",
        "stablehlo.convert",
        "stablehlo.dot_general",
        "stablehlo.dynamic_slice",
        "stablehlo.dynamic_update_slice",
        "stablehlo.logistic",
        "stablehlo.reshape",
        "stablehlo.return",
        "stablehlo.select",
        "stablehlo.slice",
        "stablehlo.transpose",
    }
)


def can_be_one_kernel(loop: Any) -> bool:
    """Whether a loop has a known count, and only operations that a kernel may know."""
    known = counted(loop)
    if known is None or known.trips < _LEAST_TURNS:
        return False
    _, body = blocks(loop)
    values = [*loop.operands, *(r for op in body.operations for r in op.operation.results)]
    if not graph.is_static(*values):
        return False
    return all(is_known(op.operation) for op in body.operations)


def is_known(op: Any) -> bool:
    """Whether a kernel may know an operation."""
    return op.name in _KNOWN or call_target(op) in ("mhlo.erf", "chlo.erf")


def is_inside(value: Any, loop: Any) -> bool:
    """Whether a value is made in the body of the loop."""
    _, body = blocks(loop)
    owner = value.owner
    return bool(owner == body if isinstance(owner, ir.Block) else owner.operation.block == body)


def hoist(loop: Any) -> None:
    """Do before the loop what is the same in every step, and products of slices of its inputs."""
    _, body = blocks(loop)
    *steps, last = body.operations
    for place, value in enumerate(last.operation.operands):
        if value == body.arguments[place]:
            loop.results[place].replace_all_uses_with(loop.operands[place])
    for each in steps:
        op = each.operation
        if not any(is_inside(v, loop) for v in op.operands):
            op.move_before(loop)
            continue
        if op.name != "stablehlo.dot_general":
            continue
        for part in _split(op, loop):
            with part.location:
                _multiply_before(part, loop)


def _split(op: Any, loop: Any) -> list[Any]:
    """A product of joined values as a sum of products, if one part is not carried; all products."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    left, right = op.operands
    joined = None if isinstance(left.owner, ir.Block) else left.owner.operation
    if joined is None or joined.name != "stablehlo.concatenate" or is_inside(right, loop):
        return [op]
    axis = int(joined.attributes["dimension"])
    inner = numbers.get("lhs_contracting_dimensions")
    if numbers.get("lhs_batching_dimensions") or inner != [axis]:
        return [op]
    if not any(_source(part, loop) for part in joined.operands):
        return [op]
    (outer,) = numbers["rhs_contracting_dimensions"]
    with ir.InsertionPoint(op), op.location:
        products = _products(joined, axis, right, (inner, outer), loop)
        total = products[0]
        for product in products[1:]:
            total = graph.binary("add", total, product)
    op.results[0].replace_all_uses_with(total)
    op.erase()
    return [product.owner.operation for product in products]


def _products(
    joined: Any, axis: int, right: Any, inner: tuple[list[int], int], loop: Any
) -> list[Any]:
    """Each of the joined values by its part of the matrix."""
    products, start = [], 0
    for part in joined.operands:
        size = graph.shape(part)[axis]
        low, high = [0] * len(graph.shape(right)), list(graph.shape(right))
        low[inner[1]], high[inner[1]] = start, start + size
        start += size
        with ir.InsertionPoint(loop):
            weights = graph.slice_(right, low, high)
        products.append(graph.product(part, weights, (inner[0], [inner[1]])))
    return products


def _source(value: Any, loop: Any) -> tuple[Any, int] | None:
    """The slice of an input that a value is, but for its shape, and the axis it steps along."""
    while is_inside(value, loop) and not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "stablehlo.reshape":
            value = op.operands[0]
            continue
        if op.name != "stablehlo.dynamic_slice" or is_inside(op.operands[0], loop):
            return None
        sizes, whole = graph.shape(value), graph.shape(op.operands[0])
        axes = [i for i, (a, b) in enumerate(zip(sizes, whole, strict=True)) if a != b]
        return (op, axes[0]) if len(axes) == 1 and sizes[axes[0]] == 1 else None
    return None


def _multiply_before(op: Any, loop: Any) -> None:
    """Multiply all slices of an input at once, before the loop; the step takes its own result."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    left, right = op.operands
    found = _source(left, loop)
    if found is None or is_inside(right, loop) or numbers.get("lhs_batching_dimensions"):
        return
    cut, axis = found
    whole = cut.operands[0]
    inner = numbers["lhs_contracting_dimensions"]
    with ir.InsertionPoint(loop):
        order = [axis, *(i for i in range(len(graph.shape(whole))) if i != axis)]
        count = graph.shape(whole)[axis]
        rows = graph.reshape(graph.transpose(whole, order), [count, *graph.shape(left)])
        products = graph.product(
            rows, right, ([i + 1 for i in inner], numbers["rhs_contracting_dimensions"])
        )
    sizes = graph.shape(op.results[0])
    place = cut.operands[1 + axis]
    with ir.InsertionPoint(op):
        zero = graph.fill(0, (), graph.element(place))
        mine = graph.dynamic_slice(products, [place, *[zero] * len(sizes)], [1, *sizes])
        same = graph.reshape(mine, sizes)
    op.results[0].replace_all_uses_with(same)
    op.erase()
