"""Halves to f32 by their bits, for targets whose code has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["HalfConversions"]

_SIGN, _REST, _ENDLESS = 0x8000, 0x7FFF, 0x7C00
_LARGER = 2.0**112
"""How much larger a half is than the f32 with its bits moved to where those of an f32 are."""


@dataclass(frozen=True, kw_only=True)
class HalfConversions:
    """A conversion of f16 to f32 becomes shifts and one exact product, where there is no f16.

    What iree-compile 3.13 makes of it for WebAssembly, browsers and node refuse. Moved to where f32
    has them, a half's bits are the number times 2^-112, also of those without a leading one;
    infinities and NaNs get the largest exponent. It runs after all kernels are placed, so that
    those which widen weights as they are read find them. Arithmetic in f16, and f32 to f16, are
    refused as before.

    Measured: all 65,536 halves come out exactly in WebAssembly, and are refused without it.
    """

    name = "half-conversions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "HalfConversions | None":
        """For programs with conversions where f16 has no code."""
        if situation.target.limits.f16:
            return None
        return cls() if "stablehlo.convert" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        return rewrite_each(module, ["stablehlo.convert"], _by_bits)


def _by_bits(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,), (result,) = op.operands, op.results
    halves = isinstance(graph.element(value), ir.F16Type)
    if not halves or not isinstance(graph.element(result), ir.F32Type):
        return None
    if not graph.is_static(value):
        return None
    sizes = graph.shape(value)
    words, single = ir.IntegerType.get_signless(32), ir.F32Type.get()

    def number(wanted: int) -> Any:
        return graph.fill(wanted, sizes, words)

    bits = graph.convert(graph.bitcast(value, ir.IntegerType.get_signless(16)), words)
    rest = graph.binary("and", bits, number(_REST))
    sign = graph.binary("shift_left", graph.binary("and", bits, number(_SIGN)), number(16))
    moved = graph.binary("shift_left", rest, number(13))
    scaled = graph.binary(
        "multiply", graph.bitcast(moved, single), graph.fill(_LARGER, sizes, single)
    )
    endless = graph.binary("or", moved, number(0x7F800000))
    is_endless = graph.compare("GE", rest, number(_ENDLESS))
    plain = graph.select(is_endless, endless, graph.bitcast(scaled, words))
    return [graph.bitcast(graph.binary("or", plain, sign), single)]
