"""What a pass may look at to decide whether a program needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgec.targets import Target
from edgec.toolchain.ir.functions import entry_block, functions, inside
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.program import Dialect, ProgramInfo

__all__ = ["Situation"]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One program on its way to one target.

    Attributes:
        info: the program's description.
        facts: what the module will say of itself.
        module: the `ir.Module` as it was read.
        target: the device it is compiled for.
        level: 0 to 3, as in `-O2`.
        narrow: compute 64-bit integers in 32 bits.
        cuts: tiles for edgec's own kernels that were measured to be best, by kernel.
    """

    info: ProgramInfo
    facts: Mapping[str, Any]
    module: Any
    target: Target
    level: int = 2
    narrow: bool = False
    cuts: Mapping[str, Cut] = field(default_factory=dict)

    @property
    def is_stablehlo(self) -> bool:
        """Whether the program is in the StableHLO dialect."""
        return self.info.dialect is Dialect.STABLEHLO

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether an argument of the program has a dimension without a size."""
        return any(
            "?" in str(argument.type)
            for function in functions(self.module).values()
            if list(function.regions[0].blocks)
            for argument in entry_block(function).arguments
        )

    @cached_property
    def operations(self) -> frozenset[str]:
        """The names of all operations that occur in the program as it was read."""
        return frozenset(op.name for op in inside(self.module.operation))

    @cached_property
    def least_precise(self) -> str:
        """`bf16` or `f16` if the program multiplies matrices in it; else empty."""
        products = ("stablehlo.dot_general", "stablehlo.convolution")
        kinds = {
            str(op.operands[0].type.element_type)
            for op in inside(self.module.operation)
            if op.name in products
        }
        return next((kind for kind in ("bf16", "f16") if kind in kinds), "")
