"""Operations that torch-mlir lowers wrongly, widely or not at all, in terms of ones it lowers well.

Each was measured against eager PyTorch with torch-mlir 20261001; the reason is with each one.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch.antialias import antialiased
from edgec.exporters.from_torch.determinants import determinants
from edgec.exporters.from_torch.eigen import eigen
from edgec.exporters.from_torch.factors import factors
from edgec.exporters.from_torch.gradients import gradients
from edgec.exporters.from_torch.masks import masks
from edgec.exporters.from_torch.parts import as_strided, select_scatter, slice_scatter
from edgec.exporters.from_torch.pooling import pooling
from edgec.exporters.from_torch.ranks import ranks
from edgec.exporters.from_torch.resampling import resampling
from edgec.exporters.from_torch.sampling import sampling
from edgec.exporters.from_torch.scans import scans
from edgec.exporters.from_torch.scatters import scatters
from edgec.exporters.from_torch.special import special
from edgec.exporters.from_torch.systems import systems

__all__ = ["decompositions"]


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """What `ExportedProgram.run_decompositions` takes: torch-mlir's own table, mended."""
    import torch

    found = dict(_table())
    # Operators that a library registers when it is imported.
    for namespace, name, rule in (("transformers", "grouped_mm_fallback", _grouped_mm),):
        operator = getattr(getattr(torch.ops, namespace), name, None)
        if operator is not None:
            found[operator.default] = rule
    return found


@functools.cache
def _table() -> Mapping[Any, Callable[..., Any]]:
    import torch
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    aten = torch.ops.aten
    table: dict[Any, Callable[..., Any]] = dict(get_decomposition_table())
    table |= {
        operator: _or_else(rule, table.get(operator))
        for operator, rule in {
            **resampling(),
            **pooling(),
            **gradients(),
            **masks(),
            **scans(),
            **systems(),
            **scatters(),
            **eigen(),
            **factors(),
            **sampling(),
        }.items()
    }
    table |= {**antialiased(), **determinants(), **ranks(), **special()}
    table |= {
        aten.addmm.default: _addmm,
        aten._sparse_addmm.default: _addmm,
        aten.select_scatter.default: select_scatter,
        aten.slice_scatter.default: slice_scatter,
        aten.as_strided.default: as_strided,
        aten.var_mean.correction: _var_mean,
        aten.var.correction: _var,
        aten.fmod.Scalar: _fmod,
        aten.remainder.Scalar: _remainder,
        aten.remainder.Tensor: _remainder,
        aten.floor_divide.default: _floor_divide,
        aten.floor_divide.Scalar: _floor_divide,
        aten.div.Tensor_mode: _div_mode,
        aten.div.Scalar_mode: _div_mode,
        aten.__rshift__.Scalar: _shift_right,
        aten.__lshift__.Scalar: _shift_left,
        aten.rms_norm.default: _rms_norm,
        aten.empty_like.default: _empty_like,
        aten.empty.memory_format: _empty,
        aten.empty_strided.default: _empty_strided,
        aten.new_empty.default: _new_empty,
        aten.sort.stable: _stable_sort,
        aten.topk.default: _topk,
        aten.unfold.default: _or_else(_unfold, table.get(aten.unfold.default)),
        aten.histc.default: _histc,
        aten.squeeze.dims: _squeeze,
        aten._grouped_mm.default: _grouped_mm,
    }
    return table


def _or_else(rule: Callable[..., Any], usual: Callable[..., Any] | None) -> Callable[..., Any]:
    """The rule, and the usual one where it does not apply."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        found = rule(*args, **kwargs)
        return usual(*args, **kwargs) if found is NotImplemented and usual is not None else found

    return chosen


def _addmm(bias: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """torch's own multiplies by 1 twice where nobody asked for a factor."""
    product = left @ right
    product = product if alpha == 1 else product * alpha
    return product + (bias if beta == 1 else bias * beta)


def _var_mean(
    x: Any, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """torch-mlir computes variances in f64, which phones have not and which is slow elsewhere."""
    axes = [axis % max(x.ndim, 1) for axis in dim] if dim else list(range(x.ndim))
    count: Any = 1
    for axis in axes:
        count = count * x.shape[axis]
    mean = x.mean(axes, keepdim=True)
    away = x - mean
    squares = (away * away.conj()).real if x.is_complex() else away * away
    total = squares.sum(axes, keepdim=True)
    spare = 1 if correction is None else correction
    variance = total / (count - spare)
    if keepdim:
        return variance, mean
    kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
    return variance.reshape(kept), mean.reshape(kept)


def _var(
    x: Any, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    return _var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


def _fmod(x: Any, y: Any) -> Any:
    """The form with a number has no lowering; the one with a tensor has."""
    import torch

    return torch.ops.aten.fmod.Tensor(x, torch.full_like(x, y))


def _remainder(x: Any, y: Any) -> Any:
    """torch-mlir gives the remainder the sign of `x`; PyTorch and Python that of `y`."""
    import torch

    rest = torch.ops.aten.fmod.Tensor(x, _like(x, y))
    return torch.where(_is_beyond(rest, y), rest + y, rest)


def _floor_divide(x: Any, y: Any) -> Any:
    """torch-mlir divides integers in f64, which loses digits and which phones have not."""
    import torch

    if x.is_floating_point() or isinstance(y, float) or _is_float(y):
        return torch.floor(x / y)
    quotient = torch.ops.aten.div.Tensor_mode(x, _like(x, y), rounding_mode="trunc")
    return quotient - _is_beyond(x - quotient * y, y).to(quotient.dtype)


def _is_beyond(rest: Any, y: Any) -> Any:
    """Where the rest of a truncating division by `y` has another sign than `y`.

    The sign of a number is settled here: torch-mlir sometimes folds `0.7 < 0` to true.
    """
    import torch

    if isinstance(y, torch.Tensor):
        return (rest != 0) & ((rest < 0) != (y < 0))
    return rest < 0 if y > 0 else rest > 0


def _is_float(y: Any) -> bool:
    import torch

    return isinstance(y, torch.Tensor) and bool(y.is_floating_point())


def _div_mode(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Truncating by a tensor is lowered well; the rest is brought to that."""
    import torch

    x = x if isinstance(x, torch.Tensor) else torch.full((), x)
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    if isinstance(y, torch.Tensor):
        return NotImplemented
    return torch.ops.aten.div.Tensor_mode(x, _like(x, y), rounding_mode=rounding_mode)


def _shift_right(x: Any, by: Any) -> Any:
    """The forms with a number have no lowering; those with a tensor have."""
    import torch

    return torch.ops.aten.bitwise_right_shift.Tensor(x, torch.full_like(x, by))


def _shift_left(x: Any, by: Any) -> Any:
    import torch

    return torch.ops.aten.bitwise_left_shift.Tensor(x, torch.full_like(x, by))


def _like(x: Any, y: Any) -> Any:
    import torch

    return y if isinstance(y, torch.Tensor) else torch.full_like(x, y)


def _rms_norm(
    x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """torch-mlir's own adds nothing to the mean where nobody said how much: rows of 0 were NaN."""
    import torch

    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    axes = list(range(-len(normalized_shape), 0))
    least = torch.finfo(wide.dtype).eps if eps is None else eps
    factor = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + least)
    result = wide * factor
    return (result if weight is None else result * weight).to(x.dtype)


def _empty(size: Sequence[int], *, dtype: Any = None, **_: Any) -> Any:
    """What nobody has written yet has no form in StableHLO; zeros are as good as anything.

    Not by `torch.full`, which is decomposed into this; and each has a place in memory, since they
    may be written in place while the graph is made.
    """
    import torch

    zeros = torch.ops.aten.scalar_tensor.default(0, dtype=dtype).expand(list(size))
    return zeros.clone(memory_format=torch.contiguous_format)


def _empty_like(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    return _empty(x.shape, dtype=dtype or x.dtype)


def _empty_strided(size: Sequence[int], stride: Any, *, dtype: Any = None, **_: Any) -> Any:
    return _empty(size, dtype=dtype)


def _new_empty(x: Any, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Any:
    return _empty(size, dtype=dtype or x.dtype)


def _unfold(x: Any, dim: int, size: int, step: int) -> Any:
    """Windows along an axis, each place of a window a slice by steps; no lowering is known."""
    import torch

    dim %= x.ndim
    length = x.shape[dim]
    if not isinstance(length, int):
        return NotImplemented
    count = (length - size) // step + 1
    slices = [
        torch.ops.aten.slice.Tensor(x, dim, place, place + (count - 1) * step + 1, step)
        for place in range(size)
    ]
    return torch.stack(slices, -1)


def _stable_sort(
    x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Any:
    """Every sort is a stable one (`portable.py`)."""
    import torch

    return torch.ops.aten.sort.default(x, dim, descending)


def _topk(x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Those in no order have no lowering, and may come in order, too."""
    import torch

    if sorted:
        return NotImplemented
    return torch.ops.aten.topk.default(x, k, dim, largest, True)


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """No lowering is known: count how many values lie between neighbouring bounds."""
    import torch

    if min == max:  # the bounds are the data's own
        return NotImplemented
    place = torch.floor((x.reshape(-1, 1) - min) / (max - min) * bins)
    # The last bin holds its upper bound, too.
    place = torch.where(x.reshape(-1, 1) == max, torch.full_like(place, bins - 1), place)
    each = torch.arange(bins, device=x.device, dtype=x.dtype)
    return (place == each).to(x.dtype).sum(0)


def _grouped_mm(
    x: Any, weights: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Rows that are sorted by group, each times its group's matrix; no lowering is known.

    Few rows take their matrices along; many go through every group's, others' rows as zeros. On
    processors the compiler's pass `grouped-rows` makes less of either.
    """
    import torch

    if offs is None or x.ndim != 2 or weights.ndim != 3 or bias is not None:
        return NotImplemented
    rows, groups = x.shape[0], weights.shape[0]
    place = torch.arange(rows, device=x.device, dtype=offs.dtype)
    group = (place.reshape(-1, 1) >= offs).to(torch.int64).sum(1)
    if rows <= groups:
        own = weights.index_select(0, group.clamp(max=groups - 1))
        found = (x.unsqueeze(1) @ own).squeeze(1)
        found = torch.where((group < groups).unsqueeze(1), found, torch.zeros_like(found))
    else:
        found = x.new_zeros(rows, weights.shape[2])
        for number in range(groups):
            mine = (group == number).unsqueeze(1)
            found = found + torch.where(mine, x, torch.zeros_like(x)) @ weights[number]
    return found if out_dtype is None else found.to(out_dtype)


def _squeeze(x: Any, dims: Sequence[int]) -> Any:
    """As another shape; torch's own gives an operation that no later decomposition takes."""
    gone = {dim % max(x.ndim, 1) for dim in dims}
    return x.reshape([size for at, size in enumerate(x.shape) if at not in gone or size != 1])
