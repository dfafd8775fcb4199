"""64-bit integers computed as two words of 32 bits, for GPUs whose shaders have no others."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import functions, inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.precision import Integers
from edgec.toolchain.program import STATE_FUNCTION

__all__ = ["PairIntegers"]


@dataclass(frozen=True, kw_only=True)
class PairIntegers:
    """Every 64-bit integer inside a program becomes two words of 32 bits.

    JAX counts what it draws in u64, hashes and generators of random numbers multiply in 64 bits,
    and phones' GPUs have 32. The compiler emulates that and refuses most of what it emulates
    ("failed to legalize operation 'vector.insert_strided_slice'": `jax.random.bits` of 128 x 256),
    and `narrow-integers` leaves alone what means more than 32 bits. Here sums carry, products are
    made of halves, and quotients are found bit by bit: all numbers are those of 64 bits, and no
    kernel ever holds one. Arguments and results stay what they were.

    Measured on Mesa's llvmpipe: a 64-bit linear congruential generator of 64 x 128 numbers is
    refused without it, and right to the last bit with it.
    """

    name = Integers.PAIRS.pass_name
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "PairIntegers | None":
        """Where the compile asks for it: plain code was refused or wrong, and 32 bits as well."""
        return cls() if situation.integers is Integers.PAIRS else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place.

        Returns:
            How many values became pairs; 0 where the program is left as it is.
        """
        from iree.compiler import ir

        from edgec.toolchain.ir.paired import holds_wide, is_known, pair_up

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            changing = [f for n, f in functions(module).items() if n != STATE_FUNCTION]
            wide = [op for f in changing for op in inside(f) if holds_wide(op)]
            if not wide or not all(is_known(op) for op in wide):
                return 0
            return sum(pair_up(function) for function in changing)
