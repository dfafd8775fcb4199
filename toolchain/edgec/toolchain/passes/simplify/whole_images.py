"""Pads and cuts before windows and convolutions, as what these say of their own edges."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WholeImages"]

_CONVOLUTION = "stablehlo.convolution"
_WINDOWS = (_CONVOLUTION, "stablehlo.reduce_window")
_EDGES = ("stablehlo.pad", "stablehlo.slice")


@dataclass(frozen=True, kw_only=True)
class WholeImages:
    """A window or convolution reads the image itself, not a padded or cut copy of it.

    torch-mlir writes ONNX' `pads` that differ from side to side as a pad before the window
    (TensorFlow's `SAME` on an even image), and cuts off rows that no window reads. Zeros around
    what is multiplied, and around what is reduced the number that a window begins with, become the
    operation's own padding, which a kernel before it writes along with its result, or one that
    turns the image; rows behind the last window stay where they are.

    Measured on one core with AVX-512, a ResNet from TensorFlow by way of ONNX (opennsfw): 0.68 ms
    of 16.2 went into such copies.
    """

    name = "whole-images"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "WholeImages | None":
        """For StableHLO with pads or slices before windows or convolutions at -O1 and above."""
        found = situation.operations
        needed = found & set(_WINDOWS) and found & set(_EDGES)
        return cls() if needed and situation.level > 0 and situation.is_stablehlo else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many copies are not read."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph
        from edgec.toolchain.ir.erase import erase_unused

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            count = 0
            for op in list(graph.inside(module.operation)):
                while op.name in _WINDOWS and len(op.results) == 1 and _taken(op):
                    count += 1
            if count:
                erase_unused(module)
            return count


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """What a window has along one axis of the image."""

    window: int
    stride: int
    apart: int
    low: int
    high: int

    def results(self, size: int) -> int:
        """How many windows there are over so many elements."""
        return (self.low + size + self.high - (self.window - 1) * self.apart - 1) // self.stride + 1


def _taken(op: Any) -> bool:
    """Whether an operation reads now what a pad or slice before it read."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    image = op.operands[0]
    if isinstance(image.owner, ir.Block) or image.owner.operation.name not in _EDGES:
        return False
    edge = image.owner.operation
    if not graph.is_static(image, edge.operands[0], op.results[0]) or 0 in graph.shape(image):
        return False
    axes = _axes(op)
    if axes is None:
        return False
    pads = _padded(op, edge, axes) if edge.name == _EDGES[0] else _uncut(edge, axes)
    if pads is None:
        return False
    order = _order(op)
    kind = graph.tensor((len(order), 2), ir.IntegerType.get_signless(64))
    values = np.array([pads[axis] for axis in order], np.int64)
    op.operands[0] = edge.operands[0]
    op.attributes["padding"] = ir.DenseElementsAttr.get(values, type=kind)
    return True


def _order(op: Any) -> list[int]:
    """The axes of the image that the operation's lists are of, in their order."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import convolution_layout

    if op.name != _CONVOLUTION:
        return list(range(len(graph.shape(op.results[0]))))
    image, _, _ = convolution_layout(op)
    return [image.index(str(number)) for number in range(len(image) - 2)]


def _axes(op: Any) -> dict[int, _Axis] | None:
    """What the window has along each axis of the image; None where that has gaps."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import convolution_layout

    order = _order(op)
    ones = [1] * len(order)
    convolves = op.name == _CONVOLUTION
    gaps, apart = (
        ("lhs_dilation", "rhs_dilation") if convolves else ("base_dilations", "window_dilations")
    )
    if graph.integers(op, gaps, ones) != ones:
        return None
    if convolves:
        _, layout, _ = convolution_layout(op)
        kernel = graph.shape(op.operands[1])
        window = [kernel[layout.index(str(number))] for number in range(len(order))]
    else:
        window = graph.integers(op, "window_dimensions")
    pads = graph.integers(op, "padding", [0] * (2 * len(order)))
    lists = (window, graph.integers(op, "window_strides", ones), graph.integers(op, apart, ones))
    return {
        axis: _Axis(window=size, stride=stride, apart=far, low=low, high=high)
        for axis, size, stride, far, low, high in zip(
            order, *lists, pads[::2], pads[1::2], strict=True
        )
    }


def _padded(op: Any, pad: Any, axes: dict[int, _Axis]) -> dict[int, tuple[int, int]] | None:
    """The padding along each axis with a pad's own; None where that is something else."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import splat

    low, high, inner = (
        graph.integers(pad, name)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    begins = 0.0 if op.name == _CONVOLUTION else splat(op.operands[1])
    if any(inner) or min(*low, *high) < 0 or begins is None or splat(pad.operands[1]) != begins:
        return None
    if any(low[axis] or high[axis] for axis in range(len(low)) if axis not in axes):
        return None
    if any(min(axis.low, axis.high) < 0 for axis in axes.values()):
        return None  # what is cut off would have to be the pad's
    return {at: (axis.low + low[at], axis.high + high[at]) for at, axis in axes.items()}


def _uncut(cut: Any, axes: dict[int, _Axis]) -> dict[int, tuple[int, int]] | None:
    """The padding along each axis, where no window reads what a slice cuts off behind."""
    from edgec.toolchain.ir import write as graph

    whole, kept = graph.shape(cut.operands[0]), graph.shape(cut.results[0])
    if any(graph.integers(cut, "start_indices")) or set(graph.integers(cut, "strides")) != {1}:
        return None
    for at, (size, rest) in enumerate(zip(whole, kept, strict=True)):
        if size == rest:
            continue
        axis = axes.get(at)
        if axis is None or axis.high != 0 or axis.results(size) != axis.results(rest):
            return None
    return {at: (axis.low, axis.high) for at, axis in axes.items()}
