"""Equal steps, one after the other, as a loop."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import functions
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["RollLoops"]


@dataclass(frozen=True, kw_only=True)
class RollLoops:
    """Equal steps of a recurrent network, written out one after the other, become a loop.

    PyTorch exports `torch.nn.LSTM` and its like with every step written out: 100 steps are 100
    products of one row, each with kernels of its own behind it, all of which are compiled. Where
    the same matrix multiplies a row that comes of its last product, eight times or more, and
    everything in between is the same in every step but for slices of an input, the steps become a
    `while`, which `recurrent-loops` makes one kernel of.

    Measured: a `torch.nn.LSTM` of 256 and 50 steps took 39 s to compile on a busy machine and takes
    9, and runs in 0.39 ms instead of 0.43 on one core, 0.45 on two.

    Attributes:
        unit: the vector registers of the target.
    """

    unit: VectorUnit

    name = "roll-loops"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "RollLoops | None":
        """For StableHLO with products and joined values at -O2 and above on a CPU with vectors."""
        if situation.level < 2 or not situation.is_stablehlo:
            return None
        unit = vector_unit(situation.target)
        needed = {"stablehlo.dot_general", "stablehlo.concatenate"} <= situation.operations
        return cls(unit=unit) if needed and unit is not None else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many loops were made."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.passes.simplify.roll_loops.emit import emit
        from edgec.toolchain.passes.simplify.roll_loops.steps import chains, read_steps

        count = 0
        with module.context, ir.Location.name(f"edgec.{self.name}"):
            for function in functions(module).values():
                for block in function.regions[0].blocks:
                    for chain in chains(block, self.unit):
                        steps = read_steps(block, chain)
                        if steps is not None and emit(steps):
                            count += 1
            if count:
                erase_unused(module)
        return count
