"""Gradients of convolutions and poolings as convolutions, choices and sums.

torch-mlir 20261001 makes of a strided convolution's gradient one with as many groups as images and
results for places that there are not, scatters what comes back through maxima element by element
(the compiler dies of it), and knows none of means. Here the gradient of weights is one convolution
whose window is what came back, and each pixel of a pooling asks the few windows that it lies in.
Each rule gives NotImplemented where it does not apply.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from edgec.exporters.from_torch.pooling import each_axis

__all__ = ["gradients"]


def gradients() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.convolution_backward.default: _convolution,
        aten.max_pool2d_with_indices_backward.default: _maxima,
        aten.avg_pool2d_backward.default: _means,
        aten._adaptive_avg_pool2d_backward.default: _adaptive_means,
    }


def _convolution(
    given: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Of `given`, what came back for the result."""
    import torch

    if transposed or not _are_numbers(given.shape, x.shape, weight.shape):
        return NotImplemented
    rank = weight.ndim - 2
    window = weight.shape[2:]
    stride, padding, dilation = (each_axis(v, rank) for v in (stride, padding, dilation))
    sizes = [*zip(x.shape[2:], given.shape[2:], stride, padding, dilation, window, strict=True)]
    to_image = to_weight = to_bias = None
    if output_mask[0]:
        left = [
            size - ((out - 1) * step - 2 * pad + apart * (places - 1) + 1)
            for size, out, step, pad, apart, places in sizes
        ]
        # torch-mlir takes `output_padding` for the axes in reverse, so that it must be one number.
        one = len(set(left)) == 1
        to_image = torch.ops.aten.convolution.default(
            *(given, weight, None, stride, padding if one else [0] * rank, dilation),
            *(True, left if one else [0] * rank, groups),
        )
        if not one:
            pads = []
            for pad, more in reversed([*zip(padding, left, strict=True)]):
                pads += [-pad, more - pad]
            to_image = _cut_or_padded(to_image, pads)
    if output_mask[1]:
        # Pixels that no window meets are left out, and zeros that none meets.
        pads = []
        for size, out, step, pad, apart, places in reversed(sizes):
            pads += [pad, (out - 1) * step + apart * (places - 1) + 1 - pad - size]
        image = _cut_or_padded(x, pads)
        count, channels = image.shape[0], image.shape[1] // groups
        rest = image.shape[2:]
        if groups > 1:
            image = image.reshape(count, groups, channels, *rest).transpose(0, 2)
            image = image.reshape(channels, groups * count, *rest)
        else:
            image = image.transpose(0, 1)
        found = torch.ops.aten.convolution.default(
            *(image, given.transpose(0, 1), None, dilation, [0] * rank, stride),
            *(False, [0] * rank, groups),
        )
        to_weight = found.transpose(0, 1)
    if output_mask[2]:
        to_bias = given.sum([0, *range(2, given.ndim)])
    return to_image, to_weight, to_bias


def _cut_or_padded(x: Any, pads: Sequence[int]) -> Any:
    """As `constant_pad_nd` of zeros, the last axis first; below 0 is cut."""
    import torch

    for number in range(len(pads) // 2):
        axis, low, high = x.ndim - 1 - number, *pads[2 * number : 2 * number + 2]
        first, last = max(-low, 0), max(-high, 0)
        if first or last:
            x = x.narrow(axis, first, x.shape[axis] - first - last)
    wide = [max(pad, 0) for pad in pads]
    return torch.ops.aten.constant_pad_nd.default(x, wide, 0.0) if any(wide) else x


def _maxima(
    given: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """What came back for each window whose largest pixel this one is."""
    import torch

    if not _are_numbers(given.shape, x.shape):
        return NotImplemented
    window, before, apart = (each_axis(v, 2) for v in (kernel_size, padding, dilation))
    steps = each_axis(stride or window, 2)
    reach = [far * (places - 1) + 1 for far, places in zip(apart, window, strict=True)]
    height, width = x.shape[-2:]
    own = torch.arange(height * width, device=x.device).reshape(height, width)
    total: Any = 0
    values = _covering(given, x.shape[-2:], reach, steps, before, 0.0)
    places = _covering(indices, x.shape[-2:], reach, steps, before, -1)
    for value, place in zip(values, places, strict=True):
        total = total + torch.where(place == own, value, torch.zeros_like(value))
    return total


def _means(
    given: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """The share of each window that a pixel lies in."""
    import torch

    if not _are_numbers(given.shape, x.shape):
        return NotImplemented
    window, before = each_axis(kernel_size, 2), each_axis(padding, 2)
    steps = each_axis(stride or window, 2)
    sizes = x.shape[-2:]
    if divisor_override is not None:
        given = given / divisor_override
    elif not ceil_mode and (count_include_pad or not any(before)):
        given = given / prod(window)
    else:
        for axis, (size, reach, step, pad) in enumerate(
            zip(sizes, window, steps, before, strict=True)
        ):
            first = torch.arange(given.shape[axis - 2], device=x.device) * step - pad
            last = (first + reach).clamp(max=size + pad if count_include_pad else size)
            count = last - (first if count_include_pad else first.clamp(min=0))
            given = given / count.to(given.dtype).reshape([-1, 1] if axis == 0 else [-1])
    total: Any = 0
    even = all(reach % step == 0 for reach, step in zip(window, steps, strict=True))
    for value, (rows, columns) in zip(
        _covering(given, sizes, window, steps, before, 0.0),
        _behind(sizes, window, steps, before, x.device),
        strict=True,
    ):
        meets = (rows < window[0]) & (columns < window[1])
        total = total + (value if even else torch.where(meets, value, torch.zeros_like(value)))
    return total


def _adaptive_means(given: Any, x: Any) -> Any:
    """Where windows are alike and do not overlap."""
    if not _are_numbers(given.shape, x.shape):
        return NotImplemented
    pairs = list(zip(x.shape[-2:], given.shape[-2:], strict=True))
    if any(size % count for size, count in pairs):
        return NotImplemented
    steps = [size // count for size, count in pairs]
    return _repeated(given / prod(steps), steps)


def _covering(
    values: Any,
    sizes: Sequence[int],
    reach: Sequence[int],
    steps: Sequence[int],
    before: Sequence[int],
    nothing: float,
) -> list[Any]:
    """For each pixel what the windows hold that may meet it: the last to begin, that before it …

    Args:
        values: one of each window, [..., rows, columns].
        sizes: rows and columns of pixels.
        reach: from a window's first pixel to its last, both included.
        steps: from window to window.
        before: padding before the first pixel.
        nothing: for windows that there are not.
    """
    import torch

    counts = [-(-far // step) for far, step in zip(reach, steps, strict=True)]
    pads: list[int] = []
    firsts, lengths = [], []
    for size, count, step, pad, windows in zip(
        sizes, counts, steps, before, values.shape[-2:], strict=True
    ):
        first, last = pad // step, (size - 1 + pad) // step
        low = max(count - 1 - first, 0)
        pads = [low, max(last - windows + 1, 0), *pads]
        firsts.append(first + low)
        lengths.append(last - first + 1)
    wide = torch.ops.aten.constant_pad_nd.default(values, pads, nothing) if any(pads) else values
    found = []
    for row in range(counts[0]):
        for column in range(counts[1]):
            some = wide.narrow(-2, firsts[0] - row, lengths[0])
            some = _repeated(some.narrow(-1, firsts[1] - column, lengths[1]), steps)
            some = some.narrow(-2, before[0] % steps[0], sizes[0])
            found.append(some.narrow(-1, before[1] % steps[1], sizes[1]))
    return found


def _behind(
    sizes: Sequence[int],
    reach: Sequence[int],
    steps: Sequence[int],
    before: Sequence[int],
    device: Any,
) -> list[tuple[Any, Any]]:
    """How far behind the beginning of each window of `_covering` a pixel lies, down and across."""
    import torch

    far = [
        [
            (torch.arange(size, device=device) + pad) % step + number * step
            for number in range(-(-length // step))
        ]
        for size, length, step, pad in zip(sizes, reach, steps, before, strict=True)
    ]
    return [(row.reshape(-1, 1), column) for row in far[0] for column in far[1]]


def _repeated(values: Any, steps: Sequence[int]) -> Any:
    """Each element so many times, down and across."""
    *outer, rows, columns = values.shape
    wide = values.reshape(*outer, rows, 1, columns, 1)
    wide = wide.expand(*outer, rows, steps[0], columns, steps[1])
    return wide.reshape(*outer, rows * steps[0], columns * steps[1])


def _are_numbers(*shapes: Sequence[Any]) -> bool:
    return all(isinstance(size, int) for sizes in shapes for size in sizes)
