"""Reductions of constants to their numbers: over whole axes, and over windows.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import integers

__all__ = ["MOST_ELEMENTS", "least", "reduced", "reduced_windows", "windows"]

_Array = np.ndarray[Any, np.dtype[Any]]
MOST_ELEMENTS = 1 << 27
"""Of an array that is worked out."""

_REDUCED: dict[str, Any] = {
    "stablehlo.add": np.add,
    "stablehlo.multiply": np.multiply,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
}


def least(array: _Array) -> _Array:
    """The array with one element along each axis that repeats one."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def windows(
    value: _Array, window: Sequence[int], steps: Sequence[int], apart: Sequence[int]
) -> Any:
    """Views of all windows: an axis for each of the value's, then one for each of the window's."""
    spans = [(size - 1) * far + 1 for size, far in zip(window, apart, strict=True)]
    whole = np.lib.stride_tricks.sliding_window_view(value, spans)
    rank = value.ndim
    places = tuple(slice(None, None, step) for step in steps)
    return whole[(*places, *(slice(None, None, far) for far in apart))], tuple(
        range(rank, 2 * rank)
    )


def _function(op: Any) -> Any:
    """What a reduction does to two numbers, if it is one operation that is known; else None."""
    inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
    return _REDUCED.get(inner[0]) if len(inner) == 2 else None


def reduced(op: Any, sources: Sequence[_Array], sizes: Sequence[int], kind: Any) -> _Array | None:
    """A reduction by one operation; sums of floats in f64."""
    function = _function(op)
    if function is None or len(sources) != 2 or sources[0].size > MOST_ELEMENTS:
        return None
    values = sources[0]
    if np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    whole = function.reduce(values, axis=tuple(integers(op, "dimensions")))
    return np.asarray(function(whole, sources[1])).reshape(sizes).astype(kind)


def reduced_windows(
    op: Any, sources: Sequence[_Array], sizes: Sequence[int], kind: Any
) -> _Array | None:
    """A reduction of windows by one operation; sums of floats in f64.

    An axis along which nothing changes, and no window reaches, costs one element.
    """
    function, rank = _function(op), len(sizes)
    ones = [1] * rank
    pads = integers(op, "padding", [0] * (2 * rank))
    if function is None or len(sources) != 2 or integers(op, "base_dilations", ones) != ones:
        return None
    value, start = sources
    window = integers(op, "window_dimensions")
    alone = [
        size == 1 and step == 0 and not any(pads[2 * axis : 2 * axis + 2])
        for axis, (size, step) in enumerate(zip(window, value.strides, strict=True))
    ]
    few = value[tuple(slice(0, 1) if each else slice(None) for each in alone)]
    steps = integers(op, "window_strides", ones)
    steps = [1 if each else step for each, step in zip(alone, steps, strict=True)]
    if math.prod(few.shape) * math.prod(window) > MOST_ELEMENTS:
        return None
    wide = few.astype(np.float64) if np.issubdtype(few.dtype, np.floating) else few
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    wide = np.pad(wide, pairs, constant_values=np.ravel(start)[0].item())
    views, axes = windows(wide, window, steps, integers(op, "window_dilations", ones))
    whole = function(function.reduce(views, axis=axes), np.ravel(start)[0])
    return np.broadcast_to(np.asarray(whole).astype(kind), sizes)
