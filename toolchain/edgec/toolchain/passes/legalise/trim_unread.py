"""Windows that fit once along an axis, and what lies behind them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["TrimUnread"]

_WINDOWS = ("stablehlo.convolution", "stablehlo.reduce_window")


@dataclass(frozen=True, kw_only=True)
class TrimUnread:
    """A window or convolution with one result along an axis gets no more there than it reads.

    iree-compile 3.13 drops axes of one element, and then takes the size of the operand to be the
    window's: four rows under one window of three are refused ("inferred input/output operand #1
    has shape's dimension #0 to be 4, but found 3"). Padding behind goes first, then elements. What
    kernels of edgec's own took is gone by then; where there are more results than one, the
    compiler knows better.

    Measured: a text recogniser whose mean pooling takes three of four rows is refused without it.
    """

    name = "trim-unread"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "TrimUnread | None":
        """For programs in StableHLO with windows or convolutions."""
        return cls() if situation.operations & set(_WINDOWS) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were trimmed."""
        return rewrite_each(module, _WINDOWS, _trimmed)


def _trimmed(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    value = op.operands[0]
    if len(op.results) != 1 or not graph.is_static(value, op.results[0]):
        return None
    axes, window, results = _axes(op)
    count = len(window)
    steps, apart, between = (
        graph.integers(op, name, [1] * count) for name in _names(op.name == _WINDOWS[0])
    )
    padding = np.zeros((count, 2), np.int64)
    if "padding" in op.attributes:
        padding = np.array(op.attributes["padding"]).reshape(count, 2)
    sizes = list(graph.shape(value))
    changed = False
    for place, axis in enumerate(axes):
        low, high = (int(n) for n in padding[place])
        spread = (sizes[axis] - 1) * between[place] + 1
        unread = low + spread + high - ((window[place] - 1) * apart[place] + 1)
        if results[place] != 1 or unread <= 0 or steps[place] == 1 or min(low, high) < 0:
            continue
        padded = min(unread, high)
        padding[place][1] -= padded
        elements = -(-(unread - padded) // between[place]) if between[place] == 1 else 0
        sizes[axis] -= elements
        changed = changed or bool(padded or elements)
    if not changed:
        return None
    attributes = dict(op.attributes.items())
    kind = graph.tensor((count, 2), ir.IntegerType.get_signless(64))
    attributes["padding"] = ir.DenseElementsAttr.get(padding, type=kind)
    read = graph.slice_(value, [0] * len(sizes), sizes)
    made = ir.Operation.create(
        op.name,
        results=[op.results[0].type],
        operands=[read, *list(op.operands)[1:]],
        attributes=attributes,
        regions=len(op.regions),
    )
    if op.regions:
        op.regions[0].blocks[0].append_to(made.regions[0])
    return [made.results[0]]


def _names(convolves: bool) -> tuple[str, str, str]:
    """Attributes: steps of the window, and how far its and the operand's elements are apart."""
    if convolves:
        return "window_strides", "rhs_dilation", "lhs_dilation"
    return "window_strides", "window_dilations", "base_dilations"


def _axes(op: Any) -> tuple[list[int], list[int], list[int]]:
    """Which axes of the operand a window runs along, its size there, and how many results."""
    from edgec.toolchain.ir import write as graph

    after = graph.shape(op.results[0])
    if op.name != _WINDOWS[0]:
        return list(range(len(after))), graph.integers(op, "window_dimensions"), list(after)
    named = re.findall(r"\[([^\]]*)\]", str(op.attributes["dimension_numbers"]))
    inputs, kernels, outputs = ([axis.strip() for axis in names.split(",")] for names in named)
    spatial = [str(number) for number in range(len(inputs) - 2)]
    kernel = graph.shape(op.operands[1])
    return (
        [inputs.index(name) for name in spatial],
        [kernel[kernels.index(name)] for name in spatial],
        [after[outputs.index(name)] for name in spatial],
    )
