"""Pooling to a given size and resizing, where torch-mlir has no form or a wrong one.

With dynamic sizes a window begins and ends where the sizes say: masks and indices are computed
from them. Each rule gives NotImplemented where the usual one, torch-mlir's or torch's, is right.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["pools_in_two_dimensions", "resampling"]


def pools_in_two_dimensions() -> Any:
    """A context in which largest elements of signals are those of images with one line.

    Without gradients, PyTorch's own form for signals works on numbers alone, and so fixes the
    length that it is traced with.
    """
    import torch
    import torch.nn.functional as functional
    from torch.overrides import TorchFunctionMode

    pools = {torch.max_pool1d, functional.max_pool1d, getattr(functional, "_max_pool1d", None)}

    class Pools(TorchFunctionMode):  # type: ignore[misc]
        """Takes `max_pool1d` in hand, and nothing else."""

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function in pools and not (kwargs or {}).get("return_indices"):
                return _pooled(*args, **(kwargs or {}))
            return function(*args, **(kwargs or {}))

    return Pools()


def _pooled(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    import torch

    def line(value: Any, other: int) -> tuple[int, int]:
        return (other, value if isinstance(value, int) else value[0])

    return torch.max_pool2d(
        x.unsqueeze(-2),
        line(kernel_size, 1),
        line(stride or kernel_size, 1),
        line(padding, 0),
        line(dilation, 1),
        ceil_mode,
    ).squeeze(-2)


def resampling() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    # As gathers, with indices known in advance where sizes are; and torch-mlir has no other form.
    gathers: dict[Any, Callable[..., Any]] = dict(
        get_decompositions(
            [
                aten.upsample_nearest1d.vec,
                aten.upsample_nearest2d.vec,
                aten.upsample_nearest3d.vec,
                aten.upsample_linear1d.vec,
                aten.upsample_bilinear2d.vec,
                aten.upsample_bicubic2d.vec,
            ]
        )
    )
    table = {
        operator: _repeated(rule) if "nearest" in str(operator) else rule
        for operator, rule in gathers.items()
    }
    table[aten._adaptive_avg_pool2d.default] = _adaptive_avg_pool2d
    table[aten.adaptive_avg_pool1d.default] = _adaptive_avg_pool1d
    table[aten.adaptive_max_pool2d.default] = _adaptive_max_pool2d
    return table


def _is_known(*sizes: Any) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _repeated(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Nearest neighbours at a whole factor of a dynamic size: each element so many times."""

    def nearest(x: Any, output_size: Any, scale_factors: Sequence[float] | None) -> Any:
        spatial = x.shape[2:]
        whole = scale_factors and all(float(f).is_integer() and f >= 1 for f in scale_factors)
        if not whole or _is_known(*spatial):
            return rule(x, output_size, scale_factors)
        factors = [int(factor) for factor in scale_factors or ()]
        for axis, factor in enumerate(factors, start=2):
            if factor > 1:
                shape = list(x.shape)
                repeated = [*shape[: axis + 1], factor, *shape[axis + 1 :]]
                shape[axis] = shape[axis] * factor
                x = x.unsqueeze(axis + 1).expand(repeated).reshape(shape)
        return x

    return nearest


def _bounds(size: Any, count: int, like: Any) -> tuple[Any, Any]:
    """Where each of `count` windows over `size` elements begins and ends, as PyTorch has it.

    In 32 bits, since not each GPU divides wider numbers.
    """
    import torch

    places = torch.arange(count, dtype=torch.int32, device=like.device)
    total = torch.full((), size, dtype=torch.int32, device=like.device)
    begins = torch.div(places * total, count, rounding_mode="trunc")
    ends = torch.div((places + 1) * total + (count - 1), count, rounding_mode="trunc")
    return begins.reshape(-1, 1), ends.reshape(-1, 1)


def _inside(size: Any, count: int, like: Any) -> tuple[Any, Any]:
    """Which elements lie in each window, bool[count, size]; and how many, i32[count, 1]."""
    import torch

    begins, ends = _bounds(size, count, like)
    places = torch.arange(size, dtype=torch.int32, device=like.device)
    return (places >= begins) & (places < ends), ends - begins


def _averaging(size: Any, count: int, like: Any) -> Any:
    """A matrix, count x size: its product with elements is the mean of each window."""
    inside, many = _inside(size, count, like)
    return inside.to(like.dtype) / many.to(like.dtype)


def _adaptive_avg_pool1d(x: Any, output_size: Sequence[int]) -> Any:
    if _is_known(x.shape[-1]):
        return NotImplemented
    if tuple(output_size) == (1,):
        return x.mean(-1, keepdim=True)
    return x @ _averaging(x.shape[-1], output_size[0], x).transpose(0, 1)


def _adaptive_avg_pool2d(x: Any, output_size: Sequence[int]) -> Any:
    """torch-mlir takes windows of the size that the example's have."""
    rows, columns = output_size
    if _is_known(*x.shape[-2:]):
        return NotImplemented
    if (rows, columns) == (1, 1):
        return x.mean((-2, -1), keepdim=True)
    down, across = _averaging(x.shape[-2], rows, x), _averaging(x.shape[-1], columns, x)
    return down @ x @ across.transpose(0, 1)


def _adaptive_max_pool2d(x: Any, output_size: Sequence[int]) -> Any:
    """torch-mlir takes windows of one size, which is wrong where one does not divide the other."""
    high, wide = x.shape[-2:]
    rows, columns = output_size
    if not _is_known(high, wide):
        return _masked_maxima(x, rows, columns)
    if high % rows == 0 and wide % columns == 0:
        return NotImplemented
    return _separate_maxima(x, rows, columns)


def _masked_maxima(x: Any, rows: int, columns: int) -> tuple[Any, Any]:
    """Largest elements and their places, where windows are known when the model is called."""
    import torch

    high, wide = x.shape[-2:]
    least = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
    down, _ = _inside(high, rows, x)
    across, _ = _inside(wide, columns, x)
    held = x.unsqueeze(-3).masked_fill(~down.unsqueeze(-1), least).amax(-2)
    values = held.unsqueeze(-2).masked_fill(~across, least).amax(-1)
    # Falls away where nobody asks for the places; of equal elements the first counts.
    window = down.reshape(rows, 1, -1, 1) & across.reshape(1, columns, 1, -1)
    found = window & (x.unsqueeze(-3).unsqueeze(-3) == values.unsqueeze(-1).unsqueeze(-1))
    lines = torch.arange(high, device=x.device).reshape(-1, 1)
    places = (lines * wide + torch.arange(wide, device=x.device)).expand_as(found)
    beyond = places.masked_fill(~found, torch.iinfo(torch.int64).max)
    return values, beyond.amin((-2, -1))


def _separate_maxima(x: Any, rows: int, columns: int) -> tuple[Any, Any]:
    """Largest elements and their places, each window by itself."""
    import torch

    high, wide = x.shape[-2:]

    def windows(size: int, count: int) -> list[tuple[int, int]]:
        return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]

    values, places = [], []
    for top, bottom in windows(high, rows):
        for left, right in windows(wide, columns):
            flat = x[..., top:bottom, left:right].flatten(-2)
            values.append(flat.amax(-1))
            at = flat.argmax(-1)  # falls away where nobody asks for the places
            row = torch.ops.aten.div.Tensor_mode(
                at, torch.full_like(at, right - left), rounding_mode="trunc"
            )
            places.append((row + top) * wide + (at - row * (right - left) + left))
    shape = [*x.shape[:-2], rows, columns]
    return torch.stack(values, -1).reshape(shape), torch.stack(places, -1).reshape(shape)
