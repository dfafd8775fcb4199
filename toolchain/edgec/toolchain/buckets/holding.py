"""What the elements behind the live ones hold, where it is known: zeros, minus infinity.

A score that is minus infinity behind the last key has a power of zero, which adds nothing to a sum
and nothing to a product: one mask is enough for all of a softmax and what is multiplied with it.
A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import COMPARISONS, ELEMENTWISE, direction, elementwise
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers

__all__ = ["Held", "held_by", "moved"]

Held = Mapping[int, float]
"""By axis, what all elements behind the live ones along it are."""


def held_by(op: Any, held: Sequence[Held], axes: Sequence[int]) -> dict[int, float]:
    """The same of the result of an element-wise operation.

    Args:
        op: the operation.
        held: of each operand.
        axes: those of the result that are open.
    """
    name = elementwise(op)
    if name is None:
        return {}
    found = {}
    for axis in axes:
        numbers = [
            known.get(axis, splat(value)) for known, value in zip(held, op.operands, strict=True)
        ]
        number = _number(op, name, numbers, axis)
        if number is not None:
            found[axis] = number
    return found


def moved(held: Held, axes: Mapping[int, int]) -> dict[int, float]:
    """The same of an operand's axes where they go to others of the result."""
    return {axes[axis]: number for axis, number in held.items() if axis in axes}


def _number(op: Any, name: str, numbers: list[float | None], axis: int) -> float | None:
    """What an operation gives; None where it is not known."""
    if None not in numbers:
        with np.errstate(all="ignore"):
            if name == "compare":
                return float(COMPARISONS[direction(op)](*numbers))
            if name == "convert":
                return numbers[0]
            if name in ("and", "or", "xor", "not"):
                return _truth(op, name, numbers)
            return float(ELEMENTWISE[name](*numbers))
    same = [_repeats(value, axis) for value in op.operands]
    match name, numbers:
        case ("add" | "subtract", [first, None]) if first is not None and np.isinf(first):
            return first if same[1] else None
        case ("multiply", [None, 0]) if same[0]:
            return 0.0
        case ("multiply" | "divide", [0, None]) if same[1]:
            return 0.0
        case ("select", [None, one, other]) if one is not None and one == other:
            return one
    return None


def _truth(op: Any, name: str, numbers: Sequence[float | None]) -> float | None:
    """Of truth values alone: bits of integers do not travel as floats."""
    if str(op.results[0].type.element_type) != "i1":
        return None
    truths = [bool(number) for number in numbers]
    return float(not truths[0] if name == "not" else ELEMENTWISE[name](*truths))


def _repeats(value: Any, axis: int) -> bool:
    """Whether a value is the same for all indices along an axis."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name != "stablehlo.broadcast_in_dim":
        return False
    axes = integers(op, "broadcast_dimensions")
    return axis not in axes or list(op.operands[0].type.shape)[axes.index(axis)] == 1
