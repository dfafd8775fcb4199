"""Scatters that write one window become an update of that window."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WriteWindows"]


@dataclass(frozen=True, kw_only=True)
class WriteWindows:
    """A scatter whose indices count up from one place, never out of bounds, is a dynamic update.

    PyTorch's `index_copy_` and `index_put_`, by which a language model writes the keys and values
    of a chunk into its cache, arrive as scatters of single elements with a table of four indices
    for each, half a megabyte a layer; the compiler's scatter copies the whole cache around them.
    Here the table is read as sums of counters and one number that is known at run time. Where the
    number's own operations (a clamp) keep the window in bounds, it is one update of a slice.

    Measured: one token into a cache of 3 heads of 1088 tokens, 64 wide, takes 41 microseconds and
    takes 87 without (most of both is a copy of the state); 64 tokens 43 and 90. The module with
    both is 16 KB, and 68 without.
    """

    name = "write-windows"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "WriteWindows | None":
        """For programs in StableHLO with a scatter."""
        return cls() if "stablehlo.scatter" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many scatters changed."""
        from edgec.toolchain.ir.erase import erase_unused

        count = rewrite_each(module, ["stablehlo.scatter"], _updated)
        if count:
            erase_unused(module)
        return count


def _updated(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.window import find_window

    window = find_window(op)
    if window is None:
        return None
    operand, _, update = op.operands
    kept = [axis for axis in window.axes if axis is not None]
    rest = [axis for axis in range(len(graph.shape(update))) if axis not in kept]
    part = graph.reshape(graph.transpose(update, [*rest, *kept]), window.sizes)
    kind = ir.IntegerType.get_signless(32)
    starts = []
    for start, offset in zip(window.starts, window.offsets, strict=True):
        at = graph.fill(offset, (), kind)
        if start is not None:
            # It is in bounds, so 32 bits hold it as long as they hold the operand's sizes.
            at = graph.binary("add", graph.convert(graph.reshape(start, ()), kind), at)
        starts.append(at)
    return [graph.dynamic_update(operand, part, starts)]
