"""Paddings kept apart from windows that have a padding of their own."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparatePads"]

_WINDOWS = frozenset({"stablehlo.reduce_window", "stablehlo.convolution"})
_PAD = "stablehlo.pad"


@dataclass(frozen=True, kw_only=True)
class SeparatePads:
    """What is padded lies in memory before a window that pads it again, and the other way round.

    iree-compile 3.13 puts two paddings by different numbers into one kernel and then refuses it:
    "op write affecting operations on global resources are restricted to workgroup distributed
    contexts". A barrier between them makes two kernels.

    Measured: of `max_pool(pad(abs(x), 1.5))`, `conv(pad(abs(x), 1.5))` and `pad(max_pool(a @ b))`,
    each with padding at the window's edges, all are refused without it for the CPU or for Vulkan.
    """

    name = "separate-pads"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SeparatePads | None":
        """For programs in StableHLO with paddings."""
        return cls() if _PAD in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values were fenced."""
        from edgec.toolchain.ir import write as graph

        with module.context:
            found = list(graph.inside(module.operation))
            return sum(_fence(op) for op in found if op.name in _WINDOWS or op.name == _PAD)


def _fence(op: Any) -> bool:
    """Put a barrier before an operation that pads what was padded; whether it did."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    value = op.operands[0]
    if isinstance(value.owner, ir.Block):
        return False
    maker = value.owner.operation
    if op.name == _PAD:
        # Kernels of edgec's own leave the padding that they had as a padding.
        meets = maker.name == _PAD or (maker.name in _WINDOWS and _pads(maker))
    else:
        meets = maker.name == _PAD and _pads(op)
    if not meets:
        return False
    with op.location, ir.InsertionPoint(op):
        op.operands[0] = graph.fence(value)
    return True


def _pads(op: Any) -> bool:
    """Whether a window meets anything around its array."""
    from edgec.toolchain.ir import write as graph

    return any(graph.integers(op, "padding", []))
