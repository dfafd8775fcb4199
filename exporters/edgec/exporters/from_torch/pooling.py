"""Pooling whose last window may reach beyond the signal, and means with a divisor of their own.

torch-mlir 20261001 pads both sides of a signal for what only its end lacks (wrong answers) and
has no means with `ceil_mode` or `divisor_override`. Here the end is padded, so that windows of
the plain kind do. Each rule gives NotImplemented where torch-mlir's own is right.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

__all__ = ["each_axis", "pooling"]


def pooling() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.max_pool2d_with_indices.default: _maxima(aten.max_pool2d_with_indices.default, 2),
        aten.max_pool3d_with_indices.default: _maxima(aten.max_pool3d_with_indices.default, 3),
        aten.avg_pool2d.default: _means(aten.avg_pool2d.default, 2),
        aten.avg_pool3d.default: _means(aten.avg_pool3d.default, 3),
        aten._adaptive_avg_pool3d.default: _adaptive_means,
        aten.adaptive_max_pool3d.default: _adaptive_maxima,
    }


def each_axis(value: Any, rank: int) -> list[int]:
    """A number for each axis, of one for all or of a list."""
    values = [value] if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def _after(size: int, window: int, step: int, before: int) -> int:
    """How many elements follow the last one, so that plain windows are those of `ceil_mode`.

    Args:
        size: elements along the axis; torch fixes it where there is `ceil_mode`.
        window: elements from a window's first to its last, both included.
        step: elements from window to window.
        before: padding before the first element; PyTorch has as many after the last, and leaves
            out a window that would begin there.
    """
    count = -(-(size + 2 * before - window) // step) + 1
    if (count - 1) * step >= size + before:
        count -= 1
    return max((count - 1) * step + window - size - before, 0)


def _padded(x: Any, before: Sequence[int], after: Sequence[int], value: float) -> Any:
    import torch

    pads = [pad for pair in reversed(list(zip(before, after, strict=True))) for pad in pair]
    return torch.ops.aten.constant_pad_nd.default(x, pads, value)


def _maxima(pool: Any, rank: int) -> Callable[..., Any]:
    def rule(
        x: Any,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        import torch

        if not ceil_mode:
            return NotImplemented
        window, before, apart = (each_axis(v, rank) for v in (kernel_size, padding, dilation))
        steps = each_axis(stride or window, rank)
        sizes = x.shape[-rank:]
        reach = [d * (k - 1) + 1 for d, k in zip(apart, window, strict=True)]
        after = [
            _after(size, *rest) for size, *rest in zip(sizes, reach, steps, before, strict=True)
        ]
        least = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
        held = _padded(x, before, after, least)
        values, places = pool(held, window, steps, [0] * rank, apart, False)
        return values, _without_padding(places, held.shape[-rank:], sizes, before)

    return rule


def _without_padding(
    places: Any, padded: Sequence[Any], sizes: Sequence[Any], before: Sequence[int]
) -> Any:
    """Places in a padded signal as places in the signal; they fall away where nobody asks."""
    found: Any = 0
    stride: Any = 1
    for axis in reversed(range(len(sizes))):
        at = places % padded[axis] - before[axis]
        found = at * stride + found
        places = places // padded[axis]
        stride = stride * sizes[axis]
    return found


def _means(pool: Any, rank: int) -> Callable[..., Any]:
    def rule(
        x: Any,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if not ceil_mode and divisor_override is None:
            return NotImplemented
        window, before = each_axis(kernel_size, rank), each_axis(padding, rank)
        steps = each_axis(stride or window, rank)
        sizes = x.shape[-rank:]
        after = before
        if ceil_mode:
            after = [
                _after(size, *rest)
                for size, *rest in zip(sizes, window, steps, before, strict=True)
            ]

        def plain(y: Any) -> Any:
            return pool(y, window, steps)

        means = plain(_padded(x, before, after, 0.0))
        if divisor_override is not None:
            return means * (prod(window) / divisor_override)
        ones = x.new_ones((1, 1, *sizes) if x.dim() == rank + 2 else (1, *sizes))
        inside = [
            min(pad, rest) if count_include_pad else 0
            for pad, rest in zip(before, after, strict=True)
        ]
        counted = before if count_include_pad else [0] * rank
        held = _padded(ones, counted, inside, 1.0)
        held = _padded(
            held,
            [pad - done for pad, done in zip(before, counted, strict=True)],
            [rest - done for rest, done in zip(after, inside, strict=True)],
            0.0,
        )
        return means / plain(held)

    return rule


def _adaptive_means(x: Any, sizes: Sequence[int]) -> Any:
    """An axis after the other, a mean for each of its windows."""
    import torch

    if not all(isinstance(size, int) for size in (*x.shape[-3:], *sizes)):
        return NotImplemented
    for axis, count in zip((-3, -2, -1), sizes, strict=True):
        size, rows = x.shape[axis], []
        for number in range(count):
            begin, end = number * size // count, -(-(number + 1) * size // count)
            rows.append(x.narrow(axis, begin, end - begin).mean(axis, keepdim=True))
        x = torch.cat(rows, axis)
    return x


def _adaptive_maxima(x: Any, sizes: Sequence[int]) -> Any:
    """Largest elements and their places, an axis after the other; of equal ones the first."""
    import torch

    if not all(isinstance(size, int) for size in (*x.shape[-3:], *sizes)):
        return NotImplemented
    places = torch.arange(prod(x.shape[-3:]), device=x.device).reshape(x.shape[-3:]).expand(x.shape)
    for axis, count in zip((-1, -2, -3), reversed(sizes), strict=True):
        size, largest, at = x.shape[axis], [], []
        for number in range(count):
            begin, end = number * size // count, -(-(number + 1) * size // count)
            window = x.narrow(axis, begin, end - begin)
            chosen = window.argmax(axis, keepdim=True)
            largest.append(window.amax(axis, keepdim=True))
            at.append(places.narrow(axis, begin, end - begin).gather(axis, chosen))
        x, places = torch.cat(largest, axis), torch.cat(at, axis)
    return x, places
