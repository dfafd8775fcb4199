"""f16 computed in f32, for targets whose code has none."""

from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["HalfFloats"]

_SAID = "f16 is computed in f32, since nothing here computes in it; what is stored stays f16"


@dataclass(frozen=True, kw_only=True)
class HalfFloats:
    """f16 becomes f32 inside a program, where there is no f16; what callers and memory hold stays.

    What iree-compile 3.13 makes of f16 for WebAssembly, browsers and node refuse. What is left are
    conversions of arguments, weights and results, which `half-conversions` writes by their bits.
    Answers are only closer to the exact ones.

    Measured: of 7 chains of operations in f16, 7 are refused for `wasm` without it, and none is
    with it.

    Attributes:
        remarks: where to say so.
    """

    remarks: list[str] = field(default_factory=list)

    name = "half-floats"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "HalfFloats | None":
        """For programs in StableHLO where f16 has no code."""
        if situation.target.limits.f16 or not situation.is_stablehlo:
            return None
        return cls(remarks=situation.remarks)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.widening import Widening

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            count = Widening.by_conversion(ir.F16Type).run(module)
        if count:
            self.remarks.append(_SAID)
        return count
