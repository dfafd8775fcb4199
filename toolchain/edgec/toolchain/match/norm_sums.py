"""The sums of a norm that are read by others, too: a step of training keeps means and deviations.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from edgec.toolchain.ir.write import shape
from edgec.toolchain.match.moments import CLOSE, Moments, Polynomial, term
from edgec.toolchain.match.norm import Norm

__all__ = ["is_read_within", "sums_read_within"]

_SUM = ["stablehlo.add", "stablehlo.return"]


def is_read_within(norm: Norm) -> bool:
    """Whether what is computed on the way to a norm's result is read by others."""
    return any(_outlives(op, set(norm.operations), norm) for op in _sums(norm))


def sums_read_within(norm: Norm) -> dict[int, Any]:
    """The sums that others rest on.

    Returns:
        Values: under 0 the sums of the tensor, where the norm has a mean; under the next number
        those of the squares of which it takes the root.
    """
    elements: Polynomial = {term(x=1): 1.0}
    squares = {term(x=2): 1.0}
    if norm.mean:
        squares |= {term(x=1, mean=1): -2.0, term(mean=2): 1.0}
    wanted: list[Polynomial] = [elements, squares] if norm.mean else [squares]
    inside = set(norm.operations)
    moments = Moments(norm.source)
    found: dict[int, Any] = {}
    for op in _sums(norm):
        if math.prod(shape(op.operands[0])) != math.prod(norm.sizes):
            continue
        read = moments.read(op.operands[0])
        for place, each in enumerate(wanted):
            if _is_close(read, each) and _outlives(op, inside, norm):
                found[place] = op.results[0]
    return found


def _is_close(read: Polynomial, wanted: Polynomial) -> bool:
    return read.keys() == wanted.keys() and all(
        math.isclose(number, wanted[each], rel_tol=CLOSE) for each, number in read.items()
    )


def _sums(norm: Norm) -> list[Any]:
    return [
        op
        for op in norm.operations
        if op.name == "stablehlo.reduce"
        and [each.operation.name for each in op.regions[0].blocks[0].operations] == _SUM
    ]


def _outlives(op: Any, inside: set[Any], norm: Norm) -> bool:
    """Whether something outside of a norm rests on one of its operations."""
    waiting, seen = [op], {op}
    while waiting:
        each = waiting.pop()
        if each == norm.value.owner.operation:
            continue
        for value in each.results:
            for use in value.uses:
                user = use.owner.operation
                if user not in inside:
                    return True
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
    return False
