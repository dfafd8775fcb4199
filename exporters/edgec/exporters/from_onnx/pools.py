"""ONNX' pooling in forms that the importer gets wrong or refuses, written in what it gets right.

It forgets dilations beside steps, divides by what windows of `ceil_mode` reach beyond the end, and
has no places of the greatest where windows overlap or leave something out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["average_pool", "least_of", "lp_pool", "max_pool"]


_FLAT = 2
"""The most axes that the importer takes means over."""


@dataclass(frozen=True, kw_only=True)
class _Windows:
    """Where a pool's windows lie: a number an axis of the image, or a list.

    Attributes:
        sizes: of the image.
        kernel: elements of a window.
        steps: between windows.
        dilations: between a window's elements.
        before: padding before the image.
        behind: padding behind it that the node asks for.
        reach: padding behind it that the last window of `ceil_mode` reads, which may be less.
        counts: windows.
    """

    sizes: Sequence[int]
    kernel: Sequence[int]
    steps: Sequence[int]
    dilations: Sequence[int]
    before: Sequence[int]
    behind: Sequence[int]
    reach: Sequence[int]
    counts: Sequence[int]

    @property
    def plain(self) -> bool:
        """Whether the importer knows the form, once `ceil_mode` and `auto_pad` are gone."""
        return list(self.before) == list(self.behind) == list(self.reach)

    @property
    def area(self) -> int:
        """Elements of a window."""
        return int(np.prod(self.kernel))

    def places(self, axis: int) -> np.ndarray:
        """Which place of the image each window reads, [windows, elements]; it may be outside."""
        first = np.arange(self.counts[axis])[:, None] * self.steps[axis] - self.before[axis]
        return np.asarray(first + np.arange(self.kernel[axis]) * self.dilations[axis])


def _windows(work: Rewriting, node: Any) -> _Windows | None:
    """The windows of a node; None where sizes are not known."""
    shape, given = work.shapes.get(node.input[0]), work.attributes(node)
    if shape is None or len(shape) < 3:
        return None
    sizes, kernel = shape[2:], given["kernel_shape"]
    rank = len(sizes)
    steps, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads, how = list(given.get("pads", [0] * 2 * rank)), given.get("auto_pad", "NOTSET")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if how.startswith("SAME"):
        over = [
            max(0, (-(-size // step) - 1) * step + span - size)
            for size, step, span in zip(sizes, steps, spans, strict=True)
        ]
        less, more = [total // 2 for total in over], [total - total // 2 for total in over]
        pads = less + more if how == "SAME_UPPER" else more + less
    before, behind = pads[:rank], pads[rank:]
    if how == "VALID":
        before, behind = [0] * rank, [0] * rank
    reach, counts = [], []
    for axis, size in enumerate(sizes):
        rest = size + before[axis] + behind[axis] - spans[axis]
        count = rest // steps[axis] + 1
        if given.get("ceil_mode", 0):
            count = -(-rest // steps[axis]) + 1
            count -= (count - 1) * steps[axis] >= size + before[axis]  # none begins behind
        last = (count - 1) * steps[axis] + spans[axis] - size - before[axis]
        reach.append(max(behind[axis], last))
        counts.append(count)
    return _Windows(
        sizes=sizes, kernel=kernel, steps=steps, dilations=dilations,
        before=before, behind=behind, reach=reach, counts=counts,
    )  # fmt: skip


def _padded(work: Rewriting, value: str, windows: _Windows, fill: np.ndarray) -> str:
    """The image with all that its windows read."""
    if not any((*windows.before, *windows.reach)):
        return value
    ends = work.numbers(0, 0, *windows.before, 0, 0, *windows.reach)
    return work.node("Pad", value, ends, work.constant(fill))


def max_pool(work: Rewriting, node: Any) -> bool:
    """Of `ceil_mode`: the last window reaches beyond the end, over values never greatest."""
    windows, kind = _windows(work, node), work.kinds.get(node.input[0])
    if windows is None or kind is None:
        return False
    if len(node.output) > 1 and node.output[1]:
        return _max_and_places(work, node, windows)
    given = work.attributes(node)
    asked = [given.pop(name, None) for name in ("ceil_mode", "auto_pad", "pads")]
    if asked[0] in (None, 0) and asked[1] in (None, "NOTSET"):
        return False
    value = node.input[0]
    if windows.plain:
        given["pads"] = [*windows.before, *windows.behind]
    else:
        value = _padded(work, value, windows, np.array(least_of(kind), kind))
    work.node("MaxPool", value, output=node.output[0], **given)
    return True


def _max_and_places(work: Rewriting, node: Any, windows: _Windows) -> bool:
    """The greatest of each window and where it is: windows in rows, of which one element each.

    What lies outside of the image is its window's first element inside once more.
    """
    batch, channels = work.shapes[node.input[0]][:2]
    rank, shape = len(windows.sizes), (*windows.counts, *windows.kernel)
    grid, inside = [], np.ones(shape, np.bool_)
    for axis, size in enumerate(windows.sizes):
        spread = [1] * 2 * rank
        spread[axis], spread[rank + axis] = windows.counts[axis], windows.kernel[axis]
        place = windows.places(axis).reshape(spread)
        inside &= (place >= 0) & (place < size)
        grid.append(np.broadcast_to(place, shape).reshape(-1, windows.area))
    rows = inside.reshape(-1, windows.area)
    if not rows.any(axis=1).all():
        return False
    chosen = np.where(rows, np.arange(windows.area), rows.argmax(axis=1)[:, None])
    grid = [np.take_along_axis(place, chosen, axis=1) for place in grid]
    flat = np.ravel_multi_index(grid, windows.sizes)
    by_columns = work.attributes(node).get("storage_order", 0)
    told = np.ravel_multi_index(grid, windows.sizes, order="F") if by_columns else flat
    pixels, count = int(np.prod(windows.sizes)), len(flat)
    plane = work.reshape(node.input[0], [batch, channels, pixels])
    read = work.node("Gather", plane, work.constant(flat.astype(np.int64)), axis=2)
    which = work.constant(np.zeros([batch, channels, count, 1], np.int64))
    if windows.area > 1:
        which = work.node("ArgMax", read, axis=-1, keepdims=1)
    after = [batch, channels, *windows.counts]
    work.reshape(work.node("GatherElements", read, which, axis=-1), after, output=node.output[0])
    first = work.constant(np.arange(count, dtype=np.int64) * windows.area)
    spot = work.node("Add", work.reshape(which, [batch, channels, count]), first)
    spot = work.node("Gather", work.constant(told.astype(np.int64).reshape(-1)), spot, axis=0)
    planes = np.arange(batch * channels, dtype=np.int64).reshape(batch, channels, 1) * pixels
    spot = work.node("Add", spot, work.constant(planes))
    work.reshape(spot, after, output=node.output[1])
    return True


def average_pool(work: Rewriting, node: Any) -> bool:
    """Means of windows with dilations, and of windows that reach beyond the end."""
    windows, kind = _windows(work, node), work.kinds.get(node.input[0])
    if windows is None or kind is None:
        return False
    given = work.attributes(node)
    if windows.plain and max(windows.dilations) == 1 and len(windows.sizes) <= _FLAT:
        asked = [given.pop(name, None) for name in ("ceil_mode", "auto_pad", "pads", "dilations")]
        if asked[0] in (None, 0) and asked[1] in (None, "NOTSET"):
            return False
        given["pads"] = [*windows.before, *windows.behind]
        work.node("AveragePool", node.input[0], output=node.output[0], **given)
        return True
    mean = _means(work, node.input[0], windows, kind)
    shares = _shares(windows, padding_counts=bool(given.get("count_include_pad", 0)))
    if (shares == 1).all():
        work.node("Identity", mean, output=node.output[0])
    else:
        work.node("Mul", mean, work.constant(shares.astype(kind)), output=node.output[0])
    return True


def _means(work: Rewriting, value: str, windows: _Windows, kind: Any) -> str:
    """Means of windows over the image and zeros around it."""
    rank, (batch, channels) = len(windows.sizes), work.shapes[value][:2]
    padded = _padded(work, value, windows, np.zeros((), kind))
    if max(windows.dilations) == 1 and rank <= _FLAT:
        return work.node("AveragePool", padded, kernel_shape=windows.kernel, strides=windows.steps)
    if max(windows.dilations) == 1:  # StableHLO has no mean over three axes: two, then one
        sizes = [
            size + before + reach
            for size, before, reach in zip(
                windows.sizes, windows.before, windows.reach, strict=True
            )
        ]
        planes = work.reshape(padded, [batch, channels * sizes[0], *sizes[1:]])
        kernel, steps = list(windows.kernel), list(windows.steps)
        planes = work.node("AveragePool", planes, kernel_shape=kernel[1:], strides=steps[1:])
        columns = work.reshape(
            planes, [batch, channels, sizes[0], int(np.prod(windows.counts[1:]))]
        )
        found = work.node(
            "AveragePool", columns, kernel_shape=[kernel[0], 1], strides=[steps[0], 1]
        )
        return work.reshape(found, [batch, channels, *windows.counts])
    weight = np.full([channels, 1, *windows.kernel], 1 / windows.area, kind)
    return work.node(
        "Conv",
        *(padded, work.constant(weight)),
        group=channels,
        strides=windows.steps,
        dilations=windows.dilations,
        pads=[0] * 2 * rank,
    )


def _shares(windows: _Windows, *, padding_counts: bool) -> np.ndarray:
    """By what to multiply each window's mean for those elements alone that count."""
    shares = np.ones([1, 1, *[1] * len(windows.sizes)])
    for axis, size in enumerate(windows.sizes):
        low, high = (
            (-windows.before[axis], size + windows.behind[axis]) if padding_counts else (0, size)
        )
        places = windows.places(axis)
        counts = ((places >= low) & (places < high)).sum(axis=1)
        spread = [1] * shares.ndim
        spread[axis + 2] = -1
        shares = shares * (windows.kernel[axis] / np.maximum(counts, 1)).reshape(spread)
    return shares


def lp_pool(work: Rewriting, node: Any) -> bool:
    """The root of the sum of powers: a mean over the window times its size."""
    windows, kind = _windows(work, node), work.kinds.get(node.input[0])
    given = work.attributes(node)
    beyond = given.get("ceil_mode", 0) or max(given.get("dilations", [1])) > 1
    if kind is None or (windows is None and beyond):
        return False
    power, area = float(given.pop("p", 2)), np.prod(given["kernel_shape"])
    one, whole, root = (
        work.constant(np.array(number, kind)) for number in (power, area, 1 / power)
    )
    raised = work.node("Pow", work.node("Abs", node.input[0]), one)
    if windows is None:  # sizes are open
        mean = work.node("AveragePool", raised, count_include_pad=1, **given)
    else:
        work.shapes[raised] = work.shapes[node.input[0]]
        mean = _means(work, raised, windows, kind)
    work.node("Pow", work.node("Mul", mean, whole), root, output=node.output[0])
    return True


def least_of(kind: Any, *, negated: bool = False) -> Any:
    """The least value of a type, or the greatest."""
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return negated
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.max if negated else limits.min
    return np.inf if negated else -np.inf
