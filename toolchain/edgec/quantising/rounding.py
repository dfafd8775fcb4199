"""A matrix of floats to integers in groups, each group's scale chosen by the least squares error.

The largest weight of a group need not be met: a smaller step rounds the many others better. So
several steps are tried for each group, each with its nearest codes; the step is then the one that
fits these codes best, and the pair with the least error is kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.quantising.scheme import Scheme
from edgec.toolchain.blocked_weights import BlockedWeights

__all__ = ["exact_scheme", "round_weights", "upright"]

_Array = np.ndarray[Any, np.dtype[Any]]
_MOST = 1 << 22
"""Weights that are worked on at once."""
_TRIES = {8: np.linspace(0.8, 1.0, 6), 4: np.linspace(0.6, 1.1, 11)}
"""Steps to try, as parts of the one that just reaches the largest weight.

That one is among them: weights that came in blocks have it, and come out as they were.
"""
_HALF_OFF = 1e-3
_EXACT = (Scheme(bits=4, group=32), Scheme(bits=8, group=32), Scheme(bits=8))
_FEW = 8
_SAME = 1e-6


def round_weights(matrix: _Array, scheme: Scheme) -> BlockedWeights:
    """The matrix, outputs x inner, in a scheme that fits it.

    Least values are kept beside the scales where they pay: their bits, spent on the codes instead,
    would lower the squared error fourfold a bit.
    """
    outputs, inner = matrix.shape
    group = scheme.group or inner
    grouped = matrix.reshape(outputs, inner // group, group)
    found = _in_pieces(grouped, lambda piece: _symmetric(piece, scheme.bits))
    codes, scale, error = next(found), next(found), next(found)
    least = None
    zero = 8 if scheme.bits == 4 else 0
    if scheme.bits == 4 and scheme.group is not None:
        other = _in_pieces(grouped, _with_least)
        shifted, steps, lows, less = next(other), next(other), next(other), next(other)
        if less.sum() * 4.0 ** (16 / group) < error.sum():
            codes, scale, least, zero = shifted, steps, lows, 0
    return BlockedWeights(
        codes=codes.reshape(outputs, inner),
        bits=scheme.bits,
        group=group,
        zero=zero,
        scale=_narrow(scale) if scheme.group else scale,
        least=None if least is None else _narrow(least),
    )


def exact_scheme(matrix: _Array) -> Scheme | None:
    """The scheme of the fewest bits that holds a matrix as it is; None where none does.

    A weight may differ by what rounding to f32 does to the product that it is.
    """
    for scheme in _EXACT:
        if not scheme.fits(matrix.shape[1]):
            continue
        # Few outputs tell most matrices apart from blocks.
        for some in (matrix[:_FEW], matrix):
            found = round_weights(np.ascontiguousarray(some), scheme)
            if np.abs(found.floats() - some).max() > _SAME * np.abs(some).max():
                break
        else:
            return scheme
    return None


def upright(rounded: BlockedWeights) -> BlockedWeights:
    """Weights of 8 bits with all scales above 0, as kernels of bytes want them.

    Groups of zeros have a scale of 1, and those whose scale is below 0 are turned round: a code of
    -128, whose counterpart is none, becomes 127.
    """
    scale = rounded.scale.astype(np.float32)
    sign = np.where(scale < 0, -1, 1)[..., None]
    grouped = rounded.codes.reshape(*scale.shape, -1) * sign
    codes = np.clip(grouped, -128, 127).astype(np.int8).reshape(rounded.codes.shape)
    scale = np.where(scale == 0, np.float32(1), np.abs(scale))
    return replace(rounded, codes=codes, scale=scale)


def _in_pieces(grouped: _Array, work: Any) -> Iterator[_Array]:
    """What work gives for all outputs, some at a time."""
    each = max(1, _MOST // max(1, grouped[0].size))
    parts = [work(grouped[i : i + each]) for i in range(0, len(grouped), each)]
    return (np.concatenate(whole) for whole in zip(*parts, strict=True))


def _symmetric(grouped: _Array, bits: int) -> tuple[_Array, _Array, _Array]:
    """Codes, scales and squared errors of groups around zero."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    extreme = np.take_along_axis(grouped, np.abs(grouped).argmax(-1)[..., None], -1)[..., 0]
    best = _Best(grouped.shape)
    for part in _TRIES[bits]:
        # The least code has no counterpart: the larger side is given it, or the step is one more.
        for reach in (high,) if bits == 8 else (low, -low):
            step = extreme / reach * part
            codes = np.clip(np.rint(_divided(grouped, step)), low, high)
            whole = codes * codes
            step = np.where(whole.any(-1), _divided(grouped * codes, whole, summed=True), step)
            best.offer(grouped, codes, _settled(step), None)
    codes = best.codes - (low if bits == 4 else 0)
    return codes.astype(np.uint8 if bits == 4 else np.int8), best.scale, best.error


def _with_least(grouped: _Array) -> tuple[_Array, _Array, _Array, _Array]:
    """Codes, scales, least values and squared errors of groups between their ends."""
    low, high = grouped.min(-1), grouped.max(-1)
    middle, reach = (low + high) / 2, (high - low) / 2
    best = _Best(grouped.shape)
    for part in _TRIES[4]:
        step, first = reach * part / 7.5, middle - reach * part
        codes = np.clip(np.rint(_divided(grouped - first[..., None], step)), 0, 15)
        mean, centre = codes.mean(-1), grouped.mean(-1)
        spread = codes - mean[..., None]
        fitted = _divided(grouped * spread, spread * spread, summed=True)
        step = np.where(fitted > 0, fitted, step)
        step, first = _settled(step), _settled(centre - step * mean)
        codes = np.clip(np.rint(_divided(grouped - first[..., None], step)), 0, 15)
        best.offer(grouped, codes, step, first)
    return best.codes.astype(np.uint8), best.scale, best.least, best.error


class _Best:
    """For each group the codes and numbers with the least error so far."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.codes = np.zeros(shape, np.float32)
        self.scale, self.least = (np.zeros(shape[:-1], np.float32) for _ in range(2))
        self.error = np.full(shape[:-1], np.inf)

    def offer(self, grouped: _Array, codes: _Array, scale: _Array, least: _Array | None) -> None:
        made = codes * scale[..., None]
        if least is not None:
            made = made + least[..., None]
        error = ((grouped - made) ** 2).sum(-1, dtype=np.float64)
        better = error < self.error
        self.codes[better], self.scale[better] = codes[better], scale[better]
        if least is not None:
            self.least[better] = least[better]
        self.error[better] = error[better]


def _divided(one: _Array, other: _Array, *, summed: bool = False) -> _Array:
    """A quotient, of sums over groups or by a number for each group; 0 where it has none."""
    if summed:
        one, other = one.sum(-1), other.sum(-1)
    elif other.ndim < one.ndim:
        other = other[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(one / other, nan=0.0, posinf=0.0, neginf=0.0)


def _settled(numbers: _Array) -> _Array:
    """Numbers as they will be kept, so that codes are chosen for what they are multiplied with."""
    return _narrow(numbers.astype(np.float32)).astype(np.float32)


def _narrow(numbers: _Array) -> _Array:
    """In f16, unless that loses more than its precision of some number."""
    with np.errstate(over="ignore"):
        half = numbers.astype(np.float16)
    sizes = np.abs(numbers)
    lost = np.abs(half.astype(np.float32) - numbers) > _HALF_OFF * sizes
    return numbers.astype(np.float32) if bool((lost & (sizes > 0)).any()) else half
