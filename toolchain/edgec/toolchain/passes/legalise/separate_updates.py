"""What a scatter writes, in a kernel of its own, on CUDA and ROCm where it has 64 bits."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparateUpdates"]

_SCATTER = "stablehlo.scatter"


@dataclass(frozen=True, kw_only=True)
class SeparateUpdates:
    """The updates of a scatter of f64 are computed before it.

    iree-compile 3.13 computes them in the scatter's own kernel. Where they come from a gather, as
    the gradient of `x[i] ** 2` has it, and are of 64 bits, it fails there for CUDA ("failed to
    apply fusion + hoisting patterns").

    Measured for CUDA: of 18 scatters in f32 and f64, five of the nine in f64 are refused without
    it, and none with it.
    """

    name = "separate-updates"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SeparateUpdates | None":
        """For programs in StableHLO with scatters of 64 bits, for CUDA and ROCm."""
        if not situation.target.is_llvm_gpu:
            return None
        return cls() if situation.has([_SCATTER], _is_wide) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many scatters."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph

        with module.context:
            found = [op for op in inside(module.operation) if op.name == _SCATTER and _is_wide(op)]
            for op in found:
                count = len(op.results)
                with op.location, ir.InsertionPoint(op):
                    for place in range(count + 1, 2 * count + 1):
                        op.operands[place] = graph.fence(op.operands[place])
        return len(found)


def _is_wide(op: Any) -> bool:
    from edgec.toolchain.ir import write as graph

    return getattr(graph.element(op.results[0]), "width", 0) == 64
