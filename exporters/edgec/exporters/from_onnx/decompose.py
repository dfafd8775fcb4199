"""ONNX operations that the importer refuses, written in ones that it takes.

Only what has no definition by ONNX' own functions (`functions.py`) stands here.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.determinants import det
from edgec.exporters.from_onnx.linear import col2im, dft, resize, stft
from edgec.exporters.from_onnx.mistaken import (
    extreme,
    mean_variance,
    modulo,
    reverse_sequence,
    space_to_depth,
)
from edgec.exporters.from_onnx.places import deform_conv, grid_sample, roi_align
from edgec.exporters.from_onnx.pools import average_pool, lp_pool, max_pool
from edgec.exporters.from_onnx.recurrent import forward_only
from edgec.exporters.from_onnx.rewriting import Rewriting, Rule, rewritten

__all__ = ["decomposed"]


def decomposed(model: Any, kinds: Collection[str]) -> bool:
    """Whether operations of these kinds (of all, if none) were rewritten; the model is changed.

    Args:
        model: a prepared `onnx.ModelProto`, its shapes inferred.
        kinds: types of operations.
    """
    rules = {kind: rule for kind, rule in _RULES.items() if not kinds or kind in kinds}
    return rewritten(model, rules)


def _cum_prod(work: Rewriting, node: Any) -> bool:
    """In steps of 1, 2, 4 …: each element times the one so far before it."""
    shape, axis = work.shapes.get(node.input[0]), work.known(node, 1)
    kind = work.kinds.get(node.input[0])
    if shape is None or axis is None or kind is None:
        return False
    along = int(axis.item()) % len(shape)
    attributes = work.attributes(node)
    backward = bool(attributes.get("reverse", 0))
    length, value = shape[along], node.input[0]

    def moved(value: str, steps: int) -> str:
        """The value moved along the axis, ones coming after it."""
        steps = min(steps, length)
        ones = work.constant(np.ones([*shape[:along], steps, *shape[along + 1 :]], kind))
        start = steps if backward else 0
        bounds = (work.numbers(number) for number in (start, start + length - steps, along))
        kept = work.node("Slice", value, *bounds)
        return work.node("Concat", *((kept, ones) if backward else (ones, kept)), axis=along)

    if attributes.get("exclusive", 0):
        value = moved(value, 1)
    steps = 1
    while steps < length:
        value = work.node("Mul", value, moved(value, steps))
        steps *= 2
    work.node("Identity", value, output=node.output[0])
    return True


def _bit_cast(work: Rewriting, node: Any) -> bool:
    """From bool as a cast, whose bits are 0 and 1."""
    if work.kinds.get(node.input[0]) != np.bool_:
        return False
    work.node("Cast", node.input[0], output=node.output[0], to=work.attributes(node)["to"])
    return True


def _tensor_scatter(work: Rewriting, node: Any) -> bool:
    """Each place of the cache takes the row of the update that is for it, if there is one."""
    cache, update = (work.shapes.get(name) for name in node.input[:2])
    if cache is None or update is None:
        return False
    attributes = work.attributes(node)
    axis = attributes.get("axis", -2) % len(cache)
    length, count = cache[axis], update[axis]
    spread = [1] * len(cache)
    spread[axis] = length
    place = work.constant(np.arange(length, dtype=np.int64).reshape(spread))
    if len(node.input) > 2 and node.input[2]:
        first = work.reshape(node.input[2], [cache[0], *[1] * (len(cache) - 1)])
        place = work.node("Sub", place, first)
    if attributes.get("mode", "linear") == "circular":
        around = work.constant(np.array(length, np.int64))
        place = work.node("Mod", work.node("Add", place, around), around, fmod=1)
    last = work.constant(np.array(count - 1, np.int64))
    none = work.constant(np.array(0, np.int64))
    inside = work.node("Min", work.node("Max", place, none), last)
    taken = work.node("Equal", place, inside)
    rows = work.node("Expand", inside, work.numbers(*cache))
    found = work.node("GatherElements", node.input[1], rows, axis=axis)
    work.node("Where", taken, found, node.input[0], output=node.output[0])
    return True


def _scatter_elements(work: Rewriting, node: Any) -> bool:
    """As `ScatterND`, which tells each element's whole place, and has every reduction."""
    data, places = (work.shapes.get(name) for name in node.input[:2])
    attributes = work.attributes(node)
    if data is None or places is None or attributes.get("reduction") not in ("min", "max"):
        return False
    along = attributes.get("axis", 0) % len(data)
    index = work.node("Cast", node.input[1], to=_I64)
    length = work.constant(np.array(data[along], np.int64))
    before = work.node("Less", index, work.constant(np.array(0, np.int64)))
    index = work.node("Where", before, work.node("Add", index, length), index)
    axes = [
        index if axis == along else work.constant(np.broadcast_to(places_on, places))
        for axis, places_on in enumerate(np.indices(places, np.int64, sparse=True))
    ]
    place = work.node("Concat", *(work.reshape(a, [*places, 1]) for a in axes), axis=len(places))
    work.node(
        "ScatterND",
        *(node.input[0], place, node.input[2]),
        output=node.output[0],
        reduction=attributes["reduction"],
    )
    return True


def _conv_transpose(work: Rewriting, node: Any) -> bool:
    """All results, of which those between the pads are taken: the importer's pads are as wide
    before as behind."""
    attributes = work.attributes(node)
    sizes, kernel = work.shapes.get(node.input[0]), work.shapes.get(node.input[1])
    if sizes is None or kernel is None or "output_shape" in attributes:
        return False
    rank = len(sizes) - 2
    steps, dilations = (
        attributes.get("strides", [1] * rank),
        attributes.get("dilations", [1] * rank),
    )
    beyond = attributes.get("output_padding", [0] * rank)
    over = [
        (size - 1) * dilation + 1 + more - step
        for size, dilation, more, step in zip(kernel[2:], dilations, beyond, steps, strict=True)
    ]
    how, pads = attributes.pop("auto_pad", "NOTSET"), attributes.pop("pads", [0] * 2 * rank)
    before, behind = pads[:rank], pads[rank:]
    if how in ("SAME_UPPER", "SAME_LOWER"):  # results as many as steps of the input
        less, more = [total // 2 for total in over], [total - total // 2 for total in over]
        before, behind = (less, more) if how == "SAME_UPPER" else (more, less)
    if before == behind or min(*before, *behind) < 0:
        return False
    whole = work.node("ConvTranspose", *node.input, **attributes)
    ends = [
        step * size + total - pad
        for step, size, total, pad in zip(steps, sizes[2:], over, behind, strict=True)
    ]
    bounds = (work.numbers(*numbers) for numbers in (before, ends, range(2, rank + 2)))
    work.node("Slice", whole, *bounds, output=node.output[0])
    return True


def _lp_normalization(work: Rewriting, node: Any) -> bool:
    """Divided by the norm; where that is zero, the importer divides by it, and ONNX gives zeros."""
    given, kind = work.attributes(node), work.kinds.get(node.input[0])
    if kind is None:
        return False
    reduction = "ReduceL1" if given.get("p", 2) == 1 else "ReduceL2"
    axis = given.get("axis", -1)
    if work.versions.get("", 0) < 18:
        norm = work.node(reduction, node.input[0], axes=[axis])
    else:
        norm = work.node(reduction, node.input[0], work.numbers(axis))
    zero, one = (work.constant(np.array(number, kind)) for number in (0, 1))
    divisor = work.node("Where", work.node("Equal", norm, zero), one, norm)
    work.node("Div", node.input[0], divisor, output=node.output[0])
    return True


def _max_unpool(work: Rewriting, node: Any) -> bool:
    """Zeros, but for the values at their places, then zeros behind along each axis.

    Places count all elements of the result that the window and its steps give.
    """
    value, kind = node.input[0], work.kinds.get(node.input[0])
    shape, after = work.shapes.get(value), work.shapes.get(node.output[0])
    asked = work.known(node, 2)
    after = after if asked is None else tuple(int(size) for size in asked)
    if shape is None or after is None or kind is None:
        return False
    given = work.attributes(node)
    kernel = given["kernel_shape"]
    rank = len(kernel)
    steps, pads = given.get("strides", [1] * rank), given.get("pads", [0] * 2 * rank)
    sizes = [
        (size - 1) * step + window - before - behind
        for size, step, window, before, behind in zip(
            shape[2:], steps, kernel, pads[:rank], pads[rank:], strict=True
        )
    ]
    whole = [*shape[:2], *sizes]
    more = [wide - size for wide, size in zip(after, whole, strict=True)]
    if min(more) < 0:
        return False
    zeros = work.constant(np.zeros(int(np.prod(whole)), kind))
    values = (work.reshape(name, [-1]) for name in (node.input[1], value))
    placed = work.reshape(work.node("ScatterElements", zeros, *values, axis=0), whole)
    behind = work.numbers(*[0] * len(shape), *more)
    work.node("Pad", placed, behind, output=node.output[0])
    return True


_I64 = 7
"""ONNX' number of int64."""

_RULES: Mapping[str, Rule] = {
    "AveragePool": average_pool,
    "BitCast": _bit_cast,
    "Col2Im": col2im,
    "ConvTranspose": _conv_transpose,
    "CumProd": _cum_prod,
    "DFT": dft,
    "DeformConv": deform_conv,
    "Det": det,
    "GRU": forward_only,
    "GridSample": grid_sample,
    "LSTM": forward_only,
    "LpNormalization": _lp_normalization,
    "LpPool": lp_pool,
    "MaxUnpool": _max_unpool,
    "MaxPool": max_pool,
    "MeanVarianceNormalization": mean_variance,
    "Mod": modulo,
    "RNN": forward_only,
    "ReduceMax": extreme,
    "ReduceMin": extreme,
    "Resize": resize,
    "ReverseSequence": reverse_sequence,
    "RoiAlign": roi_align,
    "STFT": stft,
    "ScatterElements": _scatter_elements,
    "SpaceToDepth": space_to_depth,
    "TensorScatter": _tensor_scatter,
}
