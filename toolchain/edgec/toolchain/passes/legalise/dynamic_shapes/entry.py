"""What a function's caller must respect: sizes that agree, and sizes that fit an address.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Mapping
from typing import Any

from iree.compiler import ir

from edgec.runtime.signature import Dim
from edgec.toolchain.ir.read import element_type, shape_of
from edgec.toolchain.passes.legalise.dynamic_shapes.analysis import Sizes
from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter

__all__ = ["guard_arguments"]

_EQUAL, _AT_MOST = 0, 7  # arith.cmpi: eq, ule


def guard_arguments(function: Any, sizes: Sizes, dims: Mapping[tuple[int, int], Dim]) -> None:
    """Check every dynamic size of the arguments and tell the compiler its bound.

    Where it knows none, the compiler takes the product of two dynamic sizes to overflow, and its
    range analysis then gives wrong offsets: loops and sorts read another value (iree-compile
    3.13). The bound keeps the largest tensor within 2^60 bytes: for f32, 2^29 - 1 with two dynamic
    dimensions and 2^19 - 1 with three; it is never above 2^31 - 1.
    """
    block = function.regions[0].blocks[0]
    arguments = list(block.arguments)
    largest = 2 ** sizes.bits_per_dimension() - 1
    with ir.InsertionPoint.at_block_begin(block), function.location:
        e = Emitter(function, sizes, trusts_broadcasts=True)
        bounded = [
            _bound(e, argument, number, largest, dims) if None in shape_of(argument) else argument
            for number, argument in enumerate(arguments)
        ]
        for number, axis, size in sizes.equalities(bounded):
            actual = e.create(
                "tensor.dim", e.index_type, [e.signless(bounded[number]), e.number(axis)]
            )
            _assert(
                e.compare(_EQUAL, actual, e.index(size)),
                f"dimension {axis} of argument {number} does not fit the other arguments",
            )


def _bound(
    e: Emitter,
    argument: Any,
    number: int,
    largest: int,
    dims: Mapping[tuple[int, int], Dim],
) -> Any:
    """The argument with sizes whose bound the compiler knows, in place of it everywhere."""
    uses = [(use.owner, use.operand_number) for use in argument.uses]
    plain = e.signless(argument)
    sizes, bounds = [], []
    for axis, static in enumerate(shape_of(argument)):
        if static is not None:
            continue
        dim = dims.get((number, axis))
        low = 0 if dim is None else dim.minimum
        high = largest if dim is None or dim.maximum is None else min(dim.maximum, largest)
        size = e.create("tensor.dim", e.index_type, [plain, e.number(axis)])
        which = f"dimension {axis} of argument {number}" + (f" ({dim.name})" if dim else "")
        _assert(e.compare(_AT_MOST, size, e.number(high)), f"{which} is larger than {high}")
        if low > 0:
            _assert(e.compare(_AT_MOST, e.number(low), size), f"{which} is smaller than {low}")
        sizes.append(size)
        bounds.append(f"[#util.int.assumption<umin = {low}, umax = {high}>]")
    known = ir.Operation.create(
        "util.assume.int",
        results=[e.index_type] * len(sizes),
        operands=sizes,
        attributes={"assumptions": ir.Attribute.parse(f"[{', '.join(bounds)}]")},
    ).results
    tied = e.create("flow.tensor.tie_shape", plain.type, [plain, *known])
    if element_type(tied) != element_type(argument):
        tied = e.create("stablehlo.bitcast_convert", argument.type, [tied])
    for owner, operand in uses:
        owner.operands[operand] = tied
    e.sizes.replace(argument, tied)
    return tied


def _assert(truth: Any, message: str) -> None:
    ir.Operation.create(
        "cf.assert", operands=[truth], attributes={"msg": ir.StringAttr.get(message)}
    )
