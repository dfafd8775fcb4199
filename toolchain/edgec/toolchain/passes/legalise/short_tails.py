"""Long elementwise work behind a reduction in a kernel of its own, where subgroups reduce."""

from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ShortTails"]

_REDUCTIONS = ("stablehlo.reduce", "stablehlo.dot_general")
_ALONG = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("reshape", "slice", "broadcast_in_dim", "transpose", "bitcast_convert"),
        *("and", "or", "xor", "not", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
    )
)
"""What goes into the same kernel, beside functions of numbers."""
_LONGEST = 80
"""Operations behind a reduction that stay in its kernel: a sine of far angles has 60. Of products
and maxima in a row, 108 take 3 s and 156 more than 12."""


@dataclass(frozen=True, kw_only=True)
class ShortTails:
    """A kernel ends with its reduction where much is computed of what that gives.

    iree-compile 3.13 lets a reduction's kernel do what follows element by element. Where a subgroup
    shares the reduction (targets that name their devices, by Vulkan) it then moves one operation
    after the other out of what a single lane does, which takes it twice as long for every few of
    them where they read what came before more than once: it does not end in hours.

    Measured for `vulkan:amd-rdna3` by `c = sin(c) * y + v` behind a sum `v`, three times, then as
    often of a slice of that: it did not end in 28 minutes without it, and takes 3 s with it. With
    one such step behind the slice it takes 5 s without, with two more than 30.
    """

    name = "short-tails"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "ShortTails | None":
        """For large programs in StableHLO with reductions, for Vulkan with subgroups."""
        target = situation.target
        counts = target.backend is Backend.VULKAN and target.gpu is not None and target.gpu.subgroup
        return cls() if counts and set(_REDUCTIONS) & set(situation.operations) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many reductions."""
        from edgec.toolchain.ir import write as graph

        with module.context:
            found = [
                result
                for op in inside(module.operation)
                if op.name in _REDUCTIONS
                for result in op.results
                if _is_long(result)
            ]
            for result in found:
                graph.fence_off(result)
        return len(found)


def _is_long(result: Any) -> bool:
    """Whether more is computed of it, element by element, than a kernel should do behind it."""
    from edgec.toolchain.ir.elementwise import elementwise

    seen, left = set[Any](), [result]
    while left:
        for use in left.pop().uses:
            op = use.owner.operation
            if op in seen or not (elementwise(op) or op.name in _ALONG):
                continue
            seen.add(op)
            if len(seen) > _LONGEST:
                return True
            left.extend(op.results)
    return False
