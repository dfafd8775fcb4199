"""ONNX operations that are linear in their first input, as products with constant matrices.

onnx.reference gives the matrix, so that it means what the specification says, whatever the mode.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["col2im", "dft", "resize", "stft"]

_LARGEST = 1 << 26
"""Bytes of a matrix."""


def _linear(work: Rewriting, node: Any, axes: Sequence[int]) -> bool:
    """A product with a matrix in the place of a node that is linear along some axes.

    Args:
        work: where the nodes go.
        node: reads nothing but constants besides its first input.
        axes: those that the operation mixes; along all others it does the same to each.
    """
    value, result = node.input[0], node.output[0]
    shape, after = work.shapes.get(value), work.shapes.get(result)
    if shape is None or after is None or len(shape) != len(after):
        return False
    if any(name not in work.constants for name in node.input[1:] if name):
        return False
    others = [axis for axis in range(len(shape)) if axis not in axes]
    order = [*others, *axes]
    width, height = (int(np.prod([s[a] for a in axes])) for s in (shape, after))
    if 4 * width * height > _LARGEST or not others:
        return False
    # A unit vector for each place along the first of the other axes.
    ones = [1] * (len(others) - 1)
    units = np.eye(width, dtype=np.float32).reshape([width, *ones, *(shape[a] for a in axes)])
    found = work.run(node, {value: np.transpose(units, np.argsort(order))})
    if found is None:
        return False
    matrix = np.transpose(found, order).reshape(width, height).astype(np.float32)
    kept = [shape[a] for a in others]
    moved = work.node("Transpose", value, perm=order)
    product = work.node("MatMul", work.reshape(moved, [*kept, width]), work.constant(matrix))
    split = work.reshape(product, [*kept, *(after[a] for a in axes)])
    work.node("Transpose", split, output=result, perm=[int(p) for p in np.argsort(order)])
    return True


def dft(work: Rewriting, node: Any) -> bool:
    """A Fourier transform along an axis."""
    shape = work.shapes.get(node.input[0])
    if shape is None:
        return False
    axis = work.known(node, 2)
    chosen = int(axis.item()) if axis is not None else work.attributes(node).get("axis")
    if chosen is None:
        chosen = -2 if work.versions.get("", 0) >= 20 else 1
    return _linear(work, node, [chosen % len(shape), len(shape) - 1])


def resize(work: Rewriting, node: Any) -> bool:
    """A resize of any mode that is linear."""
    shape, after = work.shapes.get(node.input[0]), work.shapes.get(node.output[0])
    if shape is None or after is None:
        return False
    transform = work.attributes(node).get("coordinate_transformation_mode")
    cropped = transform == "tf_crop_and_resize"
    axes = [axis for axis in range(len(shape)) if cropped or shape[axis] != after[axis]]
    return bool(axes) and _resized(work, node, axes, shape, after)


def _resized(
    work: Rewriting, node: Any, axes: Sequence[int], shape: Sequence[int], after: Sequence[int]
) -> bool:
    """A product along each axis, whose matrix comes from a row of unit vectors, resized."""
    attributes = work.attributes(node)
    rank = len(shape)
    named = [int(a) % rank for a in attributes.pop("axes", range(rank))]
    axes = [axis for axis in axes if axis in named]
    scales, roi = work.known(node, 2), work.known(node, 1)
    if attributes.pop("keep_aspect_ratio_policy", "stretch") != "stretch":
        scales = None
    beside = float(attributes.pop("extrapolation_value", 0))
    outside = np.zeros([1] * rank, np.bool_)
    value = node.input[0]
    for number, axis in enumerate(axes):
        place = named.index(axis)
        scale = float(scales[place]) if scales is not None and scales.size else None
        region = None
        if roi is not None and roi.size:
            region = float(roi[place]), float(roi[place + len(named)])
        matrix = _row(work, attributes, shape[axis], after[axis], scale, region)
        if matrix is None:
            return False
        if beside:
            probed = {**attributes, "extrapolation_value": 1.0}
            shown = _row(work, probed, shape[axis], after[axis], scale, region)
            if shown is None:
                return False
            spread = [-1 if other == axis else 1 for other in range(rank)]
            outside = outside | (shown[0] != matrix[0]).reshape(spread)
        last = number == len(axes) - 1 and not outside.any()
        value = _along(work, value, matrix, axis, rank, node.output[0] if last else "")
    if outside.any():  # whatever the other axes say
        filling = work.constant(np.array(beside, work.kinds[node.input[0]]))
        work.node("Where", work.constant(outside), filling, value, output=node.output[0])
    return True


def _row(
    work: Rewriting,
    attributes: Mapping[str, Any],
    old: int,
    new: int,
    scale: float | None,
    region: tuple[float, float] | None,
) -> np.ndarray | None:
    """The matrix of a resize along one axis, from onnx.reference."""
    from onnx import helper

    feed = {"x": np.eye(old, dtype=np.float32)}
    names = ["x", "", "", ""]
    if region is not None:
        names[1], feed["roi"] = "roi", np.array([0, region[0], 1, region[1]], np.float32)
    if scale is not None and int(old * scale) == new:
        names[2], feed["scales"] = "scales", np.array([1, scale], np.float32)
        names.pop()
    else:
        names[3], feed["sizes"] = "sizes", np.array([old, new], np.int64)
    found = work.run(helper.make_node("Resize", names, ["y"], **attributes), feed)
    return found if found is not None and found.shape == (old, new) else None


def _along(
    work: Rewriting, value: str, matrix: np.ndarray, axis: int, rank: int, output: str
) -> str:
    """A product along an axis."""
    if axis == rank - 1:
        return work.node("MatMul", value, work.constant(matrix), output=output)
    order = [a for a in range(rank) if a != axis] + [axis]
    moved = work.node("Transpose", value, perm=order)
    product = work.node("MatMul", moved, work.constant(matrix))
    back = [int(p) for p in np.argsort(order)]
    return work.node("Transpose", product, output=output, perm=back)


def col2im(work: Rewriting, node: Any) -> bool:
    """Windows back into an image: each channel's window a matrix' column."""
    shape, after = work.shapes.get(node.input[0]), work.shapes.get(node.output[0])
    block = work.known(node, 2)
    if shape is None or after is None or block is None or work.known(node, 1) is None:
        return False
    batch, rows, places = shape
    window = int(np.prod(block))
    channels, pixels = rows // window, int(np.prod(after[2:]))
    if 4 * window * places * pixels > _LARGEST:
        return False
    units = np.eye(window * places, dtype=np.float32).reshape(-1, window, places)
    found = work.run(node, {node.input[0]: units})
    if found is None:
        return False
    matrix = found.reshape(window * places, pixels)
    flat = work.reshape(node.input[0], [batch, channels, window * places])
    work.reshape(work.node("MatMul", flat, work.constant(matrix)), after, node.output[0])
    return True


def stft(work: Rewriting, node: Any) -> bool:
    """Transforms of windows: gathered, then multiplied."""
    """Frames, each times the matrix of window and Fourier transform."""
    shape = work.shapes.get(node.input[0])
    step, window = work.known(node, 1), work.known(node, 2)
    if shape is None or step is None or (len(shape) == 3 and shape[2] != 1):
        return False
    name = node.input[2] if len(node.input) > 2 else ""
    if name and window is None and len(work.shapes.get(name, ())) != 1:
        return False
    length = work.known(node, 3)
    if not name and length is None:
        return False
    size = work.shapes[name][0] if name else int(np.asarray(length).item())
    weights = np.ones(size) if window is None else np.asarray(window, np.float64)
    # Not as inferred: ONNX' inference forgets that one side is the default.
    bins = size // 2 + 1 if work.attributes(node).get("onesided", 1) else size
    frames = (shape[1] - size) // int(step.item()) + 1
    angle = -2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / size
    matrix = np.stack([np.cos(angle), np.sin(angle)], -1) * weights[:, None, None]
    starts = np.arange(frames)[:, None] * int(step.item()) + np.arange(size)
    plain = work.reshape(node.input[0], shape[:2])
    framed = work.node("Gather", plain, work.constant(starts.astype(np.int64)), axis=1)
    if name and window is None:  # computed, or an input
        framed = work.node("Mul", framed, name)
    transform = work.constant(matrix.reshape(size, -1).astype(np.float32))
    product = work.node("MatMul", framed, transform)
    work.reshape(product, [shape[0], frames, bins, 2], node.output[0])
    return True
