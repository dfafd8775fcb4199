"""What a scatter gives for SPIR-V, as an array of its own before it is a part of another."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WholeScatters"]

_SCATTER = "stablehlo.scatter"
_PUTS = ("stablehlo.pad", "stablehlo.dynamic_update_slice")
"""What puts an array into a larger one."""


@dataclass(frozen=True, kw_only=True)
class WholeScatters:
    """A scatter's kernel ends before that which puts its result into a larger array.

    iree-compile 3.13 lets the scatter's kernel write where the result is put. It reads what it adds
    to from somewhere else then, which for SPIR-V needs a copy that workgroups share, and the
    compiler dies of SIGSEGV where it distributes that.

    Measured by 15 programs that read or put what a scatter gives, for `vulkan`: it dies of three
    without it (padded with ones, `x.at[3:7].set(…)`, an update where the device says) and of none
    with it.
    """

    name = "whole-scatters"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "WholeScatters | None":
        """For programs in StableHLO with scatters that are put into arrays, for SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if situation.has([_SCATTER], _is_put) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many scatters."""
        from edgec.toolchain.ir import write as graph

        with module.context:
            found = [op for op in inside(module.operation) if op.name == _SCATTER and _is_put(op)]
            for op in found:
                for result in op.results:
                    graph.fence_off(result)
        return len(found)


def _is_put(op: Any) -> bool:
    return any(use.owner.operation.name in _PUTS for result in op.results for use in result.uses)
