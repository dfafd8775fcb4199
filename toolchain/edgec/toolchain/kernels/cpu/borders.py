"""What stands around an image for the window that comes next: its size, and what it is filled with.

A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.kernels.cpu.plans import Pad

__all__ = ["Border", "border_of_window", "hand_over"]

_WINDOW = "stablehlo.reduce_window"


@dataclass(frozen=True, kw_only=True)
class Border:
    """Rows above and below, columns left and right, and what all their elements are."""

    pad: Pad = ((0, 0), (0, 0))
    edge: float = 0.0


def border_of_window(use: Any) -> Border | None:
    """What a reduction over windows of an image, channels last, wants around it, if it uses that.

    It starts from its initial value, so that an edge of these changes nothing.
    """
    op = use.owner.operation
    if op.name != _WINDOW or len(op.operands) != 2 or use.operand_number != 0:
        return None
    edge = splat(op.operands[1])
    pads = integers(op, "padding", [0] * 8)
    spread = integers(op, "base_dilations", [1] * 4)
    if edge is None or len(shape_of(op.operands[0])) != 4 or any(step != 1 for step in spread):
        return None
    if min(pads) < 0 or any(pads[:2] + pads[6:]) or not any(pads):
        return None
    return Border(pad=((pads[2], pads[3]), (pads[4], pads[5])), edge=edge)


def hand_over(use: Any, value: Any) -> None:
    """Let a user read a value that has its border."""
    op = use.owner.operation
    op.operands[use.operand_number] = value
    if op.name == _WINDOW:
        op.attributes["padding"] = ir.Attribute.parse("dense<0> : tensor<4x2xi64>")
