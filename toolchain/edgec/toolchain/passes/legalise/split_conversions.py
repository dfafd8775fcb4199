"""64-bit integers to floats and back by their halves, for processors of 32 bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitConversions"]

_HALF = 4294967296.0


@dataclass(frozen=True, kw_only=True)
class SplitConversions:
    """A conversion between 64-bit integers and floats is done for each half of 32 bits.

    Arm's processors of 32 bits have no instruction for it. LLVM calls its own library
    (`__aeabi_l2f`), which modules do not hold, so that the linker refuses the program. Halves are
    converted by instructions, to f64 and from it, and put together there: whole numbers up to
    2^53 stay as they are, larger ones are rounded once to f64 and then to what is wanted.

    Measured: the sentences sample, whose masks are i64, is refused for `cpu:armv7` without it, and
    right with it under qemu.
    """

    name = "split-conversions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SplitConversions | None":
        """For programs in StableHLO with conversions on a 32-bit Arm CPU."""
        cpu = situation.target.cpu
        if cpu is None or not cpu.triple.startswith("armv7"):
            return None
        return cls() if "stablehlo.convert" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        return rewrite_each(module, ["stablehlo.convert"], _by_halves)


def _by_halves(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,), (result,) = op.operands, op.results
    before, after = graph.element(value), graph.element(result)
    if not graph.is_static(value):
        return None
    if _is_long(before) and isinstance(after, ir.FloatType):
        return [_to_float(value, before, after)]
    if isinstance(before, ir.FloatType) and _is_long(after):
        return [_from_float(value, after)]
    return None


def _is_long(kind: Any) -> bool:
    from iree.compiler import ir

    return isinstance(kind, ir.IntegerType) and kind.width == 64


def _to_float(value: Any, before: Any, after: Any) -> Any:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    shape, wide, half = graph.shape(value), ir.F64Type.get(), ir.IntegerType.get_signless(32)
    shift = "shift_right_logical" if before.is_unsigned else "shift_right_arithmetic"
    high = graph.binary(shift, value, graph.fill(32, shape, before))
    high = graph.convert(graph.convert(high, half), wide)
    if before.is_unsigned:
        high = _unsigned(high)
    low = _unsigned(graph.convert(graph.convert(value, half), wide))
    whole = graph.binary("add", graph.binary("multiply", high, graph.fill(_HALF, shape, wide)), low)
    return graph.convert(whole, after)


def _unsigned(half: Any) -> Any:
    """What 32 bits stand for as an unsigned number, which were read as a signed one."""
    from edgec.toolchain.ir import write as graph

    shape, wide = graph.shape(half), graph.element(half)
    negative = graph.compare("LT", half, graph.fill(0.0, shape, wide))
    return graph.select(negative, graph.binary("add", half, graph.fill(_HALF, shape, wide)), half)


def _from_float(value: Any, after: Any) -> Any:
    """Three parts of up to 22 bits, each cut off towards 0 by the conversion to 32 bits."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    shape, wide, half = graph.shape(value), ir.F64Type.get(), ir.IntegerType.get_signless(32)
    rest, total = graph.convert(value, wide), None
    for bits in (44, 22, 0):
        scaled = graph.binary("multiply", rest, graph.fill(2.0**-bits, shape, wide))
        part = graph.convert(scaled, half)
        taken = graph.binary(
            "multiply", graph.convert(part, wide), graph.fill(2.0**bits, shape, wide)
        )
        rest = graph.binary("subtract", rest, taken)
        placed = graph.binary(
            "shift_left", graph.convert(part, after), graph.fill(bits, shape, after)
        )
        total = placed if total is None else graph.binary("add", total, placed)
    return total
