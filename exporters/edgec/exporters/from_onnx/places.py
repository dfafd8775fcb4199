"""Operations that read an image at computed places: `GridSample`, `RoiAlign`, `DeformConv`.

Each becomes gathers of rows of channels, one a neighbour of each place, and their weighted sum.
"""

from typing import Any

import numpy as np

from edgec.exporters.from_onnx.reading import Padding, Reader
from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["deform_conv", "grid_sample", "roi_align"]

_I64 = 7
"""ONNX' number of int64."""

_FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


def grid_sample(work: Rewriting, node: Any) -> bool:
    """Each place of the grid, from -1 to 1 along each axis, read by any mode and padding."""
    image, grid = (work.shapes.get(name) for name in node.input)
    kind = work.kinds.get(node.input[0])
    if image is None or grid is None or kind not in _FLOATS or 0 in (*image, *grid):
        return False
    given = work.attributes(node)
    mode = _MODES.get(given.get("mode", "linear"))
    aligned = bool(given.get("align_corners", 0))
    if mode is None:
        return False
    reader = Reader(work, node.input[0], image, kind)
    flat = reader.cast(work.reshape(node.input[1], [grid[0], -1, len(image) - 2]))
    places = []
    for axis, size in enumerate(image[2:]):
        last = work.constant(np.array(len(image) - 3 - axis, np.int64))
        at = work.node("Add", work.node("Gather", flat, last, axis=2), reader.number(1))
        if aligned:
            places.append(work.node("Mul", at, reader.number((size - 1) / 2)))
        else:
            wide = work.node("Mul", at, reader.number(size / 2))
            places.append(work.node("Sub", wide, reader.number(0.5)))
    padding = Padding(given.get("padding_mode", "zeros"), aligned)
    found = reader.read(places, mode, padding)
    channels_first = work.node("Transpose", found, perm=[0, 2, 1])
    shaped = work.reshape(channels_first, [*image[:2], *grid[1:-1]])
    reader.finish(shaped, node.output[0])
    return True


_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_MODES |= {mode: mode for mode in ("linear", "cubic", "nearest")}


def roi_align(work: Rewriting, node: Any) -> bool:
    """Regions of images, cut into bins, of each of which some places are read."""
    image, regions = (work.shapes.get(name) for name in node.input[:2])
    kind, given = work.kinds.get(node.input[0]), work.attributes(node)
    count = given.get("sampling_ratio", 0)
    if image is None or regions is None or kind not in _FLOATS or count < 1:
        return False  # how many places are read would depend on data
    half = given.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    heights, widths = given.get("output_height", 1), given.get("output_width", 1)
    reader = Reader(work, node.input[0], image, kind)
    corners = work.node(
        "Mul", reader.cast(node.input[1]), reader.number(given.get("spatial_scale", 1.0))
    )
    corners = work.node("Sub", corners, reader.number(0.5 if half else 0.0))
    total = heights * count * widths * count
    places = []
    for axis, bins in enumerate((heights, widths)):
        first, end = (
            work.node("Gather", corners, work.numbers(1 - axis + more), axis=1) for more in (0, 2)
        )
        length = work.node("Sub", end, first)
        if not half:
            length = work.node("Max", length, reader.number(1))
        parts = (np.arange(bins * count) + 0.5) / (bins * count)
        spread = [1, -1, 1] if axis == 0 else [1, 1, -1]
        step = work.constant(parts.reshape(spread).astype(reader.kind))
        along = work.node("Mul", work.reshape(length, [-1, 1, 1]), step)
        at = work.node("Add", along, work.reshape(first, [-1, 1, 1]))
        whole = work.numbers(regions[0], heights * count, widths * count)
        places.append(work.reshape(work.node("Expand", at, whole), [-1, total]))
    first_row = work.node(
        "Mul", work.node("Cast", node.input[2], to=_I64), reader.whole(reader.places)
    )
    reader.first = work.reshape(first_row, [-1, 1])
    near = Padding("region", False)
    bins_of = [regions[0], heights, count, widths, count, image[1]]
    if given.get("mode", "avg") == "avg":
        values = work.reshape(reader.read(places, "linear", near), bins_of)
        pooled = work.node("ReduceMean", values, axes=[2, 4], keepdims=0)
    else:  # the largest of the weighted neighbours, as the specification has it
        parts_of = reader.parts(places, "linear", near)
        largest = work.node("Max", *parts_of)
        values = work.reshape(largest, bins_of)
        pooled = work.node("ReduceMax", values, axes=[2, 4], keepdims=0)
    reader.finish(work.node("Transpose", pooled, perm=[0, 3, 1, 2]), node.output[0])
    return True


def deform_conv(work: Rewriting, node: Any) -> bool:
    """A convolution of two dimensions whose windows' places are moved: read, then multiplied."""
    image, weight, moved = (work.shapes.get(name) for name in node.input[:3])
    kind, given = work.kinds.get(node.input[0]), work.attributes(node)
    if image is None or weight is None or moved is None or len(image) != 4:
        return False
    if kind not in _FLOATS:
        return False
    groups, offset_groups = given.get("group", 1), given.get("offset_group", 1)
    kernel, after = weight[2:], moved[2:]
    taps, pixels = kernel[0] * kernel[1], after[0] * after[1]
    batch, channels = image[0] * offset_groups, image[1] // offset_groups
    apart = work.reshape(node.input[0], [batch, channels, *image[2:]])
    reader = Reader(work, apart, (batch, channels, *image[2:]), kind)
    offsets = work.reshape(reader.cast(node.input[2]), [batch, taps, 2, *after])
    steps, dilations = given.get("strides", [1, 1]), given.get("dilations", [1, 1])
    pads = given.get("pads", [0, 0, 0, 0])
    places = []
    for axis in range(2):
        inside = np.arange(kernel[axis]) * dilations[axis]
        outside = np.arange(after[axis]) * steps[axis] - pads[axis]
        shape = [[kernel[0], 1], [1, kernel[1]]][axis]
        window = np.broadcast_to(inside.reshape(shape), kernel).reshape(taps, 1, 1)
        rows = outside.reshape([[1, -1, 1], [1, 1, -1]][axis])
        where = work.constant((window + rows).astype(reader.kind))
        offset = work.node("Gather", offsets, work.constant(np.array(axis, np.int64)), axis=2)
        places.append(work.reshape(work.node("Add", offset, where), [batch, taps * pixels]))
    read = reader.read(places, "linear", Padding("zeros", True))
    if len(node.input) > 4 and node.input[4]:
        mask = work.reshape(reader.cast(node.input[4]), [batch, taps * pixels, 1])
        read = work.node("Mul", read, mask)
    split = work.reshape(read, [image[0], offset_groups, taps, pixels, channels])
    ordered = work.node("Transpose", split, perm=[0, 1, 4, 2, 3])
    columns = work.reshape(ordered, [image[0], groups, image[1] // groups * taps, pixels])
    rows_of = [1, groups, weight[0] // groups, weight[1] * taps]
    summed = work.node("MatMul", work.reshape(reader.cast(node.input[1]), rows_of), columns)
    found = work.reshape(summed, [image[0], weight[0], *after])
    if len(node.input) > 3 and node.input[3]:
        bias = work.reshape(reader.cast(node.input[3]), [1, -1, 1, 1])
        found = work.node("Add", found, bias)
    reader.finish(found, node.output[0])
    return True
