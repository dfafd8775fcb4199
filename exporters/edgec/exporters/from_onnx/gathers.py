"""ONNX operations that read known places along axes, in ways that importers refuse, as gathers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.facts import Facts

__all__ = ["gather_backward", "gather_nearest", "gather_reflections"]


def _gather(graph: Any, node: Any, indices: Mapping[int, np.ndarray]) -> list[Any]:
    """Gathers along several axes in the place of a node."""
    from onnx import helper, numpy_helper

    made: list[Any] = []
    value = node.input[0]
    for number, (axis, index) in enumerate(indices.items()):
        last = number == len(indices) - 1
        name = f"{node.output[0]}_axis{axis}"
        graph.initializer.append(numpy_helper.from_array(index.astype(np.int64), f"{name}_index"))
        output = node.output[0] if last else name
        made.append(helper.make_node("Gather", [value, f"{name}_index"], [output], axis=axis))
        value = output
    return made


def gather_reflections(graph: Any, node: Any, facts: Facts) -> list[Any] | None:
    """A `Pad` of known size with values of its own is a gather; importers take constant pads only.

    Of one that wraps around torch-mlir's passes never end.

    What is less than none is cropped, and that first, as onnxruntime has it.
    """
    mode = facts.attributes(node).get("mode", "constant")
    if node.op_type != "Pad" or mode not in ("reflect", "edge", "wrap"):
        return None
    pads = facts.constants.get(node.input[1])
    shape = facts.shapes.get(node.input[0])
    if pads is None or shape is None or len(node.input) > 3:
        return None
    rank = len(shape)
    indices: dict[int, np.ndarray] = {}
    for axis in range(rank):
        size, before, after = shape[axis], int(pads[axis]), int(pads[axis + rank])
        if not before and not after:
            continue
        if size is None or size + min(before, 0) + min(after, 0) <= 0:
            return None
        kept = np.arange(-min(before, 0), size + min(after, 0))
        indices[axis] = np.pad(kept, (max(before, 0), max(after, 0)), mode=mode)
    return _gather(graph, node, indices) or None


def gather_nearest(graph: Any, node: Any, facts: Facts) -> list[Any] | None:
    """A `Resize` to the nearest value, of known sizes, is a gather."""
    if node.op_type != "Resize" or facts.attributes(node).get("mode", "nearest") != "nearest":
        return None
    attributes = facts.attributes(node)
    before, after = facts.shapes.get(node.input[0]), facts.shapes.get(node.output[0])
    scales = facts.constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if before is None or after is None or "axes" in attributes:
        return None
    indices: dict[int, np.ndarray] = {}
    for axis, (old, new) in enumerate(zip(before, after, strict=True)):
        scale = None if scales is None or not scales.size else float(scales[axis])
        if old is None or new is None:
            if scale == 1.0:
                continue
            return None
        if old == new:
            continue
        place = _resized_place(np.arange(new), old, new, scale or new / old, attributes)
        if place is None:
            return None
        indices[axis] = np.clip(place, 0, old - 1)
    return _gather(graph, node, indices) or None


def _resized_place(
    at: np.ndarray, old: int, new: int, scale: float, attributes: Mapping[str, Any]
) -> np.ndarray | None:
    """Which old index each new one takes, as ONNX' specification of Resize says."""
    transform = attributes.get("coordinate_transformation_mode", "half_pixel")
    if transform == "asymmetric":
        place = at / scale
    elif transform == "half_pixel" or (transform == "pytorch_half_pixel" and new > 1):
        place = (at + 0.5) / scale - 0.5
    elif transform == "align_corners" and new > 1:
        place = at * (old - 1) / (new - 1)
    else:
        return None
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    if rounding == "floor":
        return np.floor(place)
    if rounding == "ceil":
        return np.ceil(place)
    return np.ceil(place - 0.5) if rounding == "round_prefer_floor" else np.floor(place + 0.5)


def gather_backward(graph: Any, node: Any, facts: Facts) -> list[Any] | None:
    """A `Slice` by steps below zero along an axis of known size; importers step forwards only."""
    if node.op_type != "Slice" or len(node.input) < 5:
        return None
    shape = facts.shapes.get(node.input[0])
    names = [name for name in node.input[1:] if name]
    if shape is None or any(name not in facts.constants for name in names):
        return None
    starts, ends = (facts.constants[node.input[place]].tolist() for place in (1, 2))
    steps = facts.constants[node.input[4]].tolist()
    axes = facts.constants[node.input[3]].tolist() if node.input[3] else range(len(steps))
    if min(steps, default=1) > 0:
        return None
    indices: dict[int, np.ndarray] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place = axis % len(shape)
        size = shape[place]
        if size is None:
            return None
        # ONNX counts what is below zero from the end, and holds what is beyond either end there.
        first, last = (at + size if at < 0 else at for at in (start, end))
        low, high = (0, size) if step > 0 else (-1, size - 1)
        indices[place] = np.arange(min(max(first, 0), high), min(max(last, low), high), step)
    return _gather(graph, node, indices)
