"""Transposes that move an odd innermost axis to two, between which another is the innermost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["TurnTwice"]

_FOUR = 4


@dataclass(frozen=True, kw_only=True)
class TurnTwice:
    """What moves an innermost axis of 9 or 21 is turned round first, and then to what is asked for.

    iree-compile 3.13 runs through a transpose in the order of its operand. Where the innermost
    axis there is no multiple of 4, it often gives an element to a workgroup; PyTorch's weights of
    3 x 3, [outputs, inputs, 3, 3], are turned so when a module is loaded. Turned round as a matrix
    first, both become one kernel of the compiler's, which runs through what lies between. Axes
    that stay beside each other count as one here. Transposes of two such axes are left alone:
    nothing lies between.

    Measured on Mesa's llvmpipe: 128 x 64 x 9 to 9 x 64 x 128 takes 8 ns an element, 1,204 without;
    2 x 4096 x 21 to 2 x 21 x 4096 7 and 1,192.
    """

    name = "turn-twice"
    purpose = Purpose.SPEED
    least: int = 1 << 12
    """Elements below which it does not matter."""

    @classmethod
    def plan(cls, situation: Situation) -> "TurnTwice | None":
        """For programs in StableHLO with transposes that become SPIR-V."""
        fits = situation.target.is_spirv and situation.is_stablehlo
        return cls() if fits and "stablehlo.transpose" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were turned twice."""
        return rewrite_each(module, ["stablehlo.transpose"], self._turn)

    def _turn(self, op: Any) -> list[Any] | None:
        from edgec.toolchain.ir import write

        (value,) = op.operands
        sizes = write.shape(value)
        groups = _groups(sizes, write.integers(op, "permutation"))
        counts = [math.prod(sizes[axis] for axis in axes) for axes in sorted(groups)]
        order = [sorted(groups).index(axes) for axes in groups]
        if len(order) != 3 or order[2] == 2 or counts[2] % _FOUR == 0:
            return None
        if math.prod(counts) < self.least:
            return None
        # So many of the outer axes go inside: of either, the innermost one is a power of 2 more
        # often.
        rounds = max((2, 1), key=lambda many: _even(counts[many - 1]))
        if counts[rounds - 1] % 2:
            return None
        outer, inner = math.prod(counts[:rounds]), math.prod(counts[rounds:])
        between = [*range(rounds, 3), *range(rounds)]
        turned = write.transpose(write.reshape(value, (outer, inner)), (1, 0))
        apart = write.reshape(turned, [counts[axis] for axis in between])
        last = write.transpose(apart, [between.index(axis) for axis in order])
        return [write.reshape(last, write.shape(op.results[0]))]


def _groups(sizes: Sequence[int], order: Sequence[int]) -> list[list[int]]:
    """The axes of an operand as they lie in the result, together where they stay beside each other.

    Axes of one element count nowhere.
    """
    found: list[list[int]] = []
    kept = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    for axis in (axis for axis in order if sizes[axis] != 1):
        place = kept.index(axis)
        if found and place and kept[place - 1] == found[-1][-1]:
            found[-1].append(axis)
        else:
            found.append([axis])
    return found


def _even(count: int) -> int:
    """The largest power of 2 that divides a number."""
    return count & -count
