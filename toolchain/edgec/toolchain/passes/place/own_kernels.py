"""Kernels that the user wrote, in a program's composites, as dispatches of their code."""

from dataclasses import dataclass, field
from typing import Any

from edgec.targets import Target
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["OwnKernels"]


@dataclass(frozen=True, kw_only=True)
class OwnKernels:
    """A composite `edgec.kernel` becomes its code for the target, compiled and dispatched.

    The program holds the code (`own_kernels`), and what it computes as the composite's
    decomposition: that is called where there is no code for the target, and the code is proved
    against it before the module is made. First of all passes, so that the arrays have the types
    that the user's code was written for, and nothing is moved into it or out of it. Left out, every
    kernel's reference is computed.

    Measured: a median of nine pixels in C takes 3.8 ms on two threads of a Zen 5 for two times
    three colours of 640 x 427, and its reference, a sort, 629 (`samples/own_kernels/run.py`).
    """

    target: Target
    answers: Answers = field(default_factory=Answers)

    name = "own-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "OwnKernels | None":
        """For StableHLO with composites."""
        if not situation.is_stablehlo or "stablehlo.composite" not in situation.operations:
            return None
        return cls(target=situation.target, answers=situation.answers)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.kernels.own.placing import place_own_kernels

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            return place_own_kernels(module, self.target, self.answers)
