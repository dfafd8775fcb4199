"""Tensors of a GGUF file to integers in groups, which stand for just the numbers that they did.

The scales of a K-block are integers of 6 or 8 bits, times a number of the block's own: integers
stay, a byte each, and the block's number becomes f32, which holds the product exactly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from edgec.toolchain.blocked_weights import BlockedWeights

__all__ = ["KINDS", "integers_of"]

_Array = np.ndarray[Any, np.dtype[Any]]
_K_GROUPS = 8
_NUMBERS = ("scale", "least", "scale_factor", "least_factor")
_AT_ONCE = 1 << 22
"""Bytes of a matrix that are read together."""


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Of some blocks: codes, blocks x groups x group; scales and least values, blocks x groups.

    Factors of integers among these are blocks x 1.
    """

    codes: _Array
    bits: int
    scale: _Array
    zero: int = 0
    least: _Array | None = None
    scale_factor: _Array | None = None
    least_factor: _Array | None = None


def integers_of(kind: str, data: _Array) -> BlockedWeights | None:
    """A matrix in blocks as `BlockedWeights`; None for a kind that is kept in another way.

    Args:
        kind: what GGUF calls it, as `Q4_1`.
        data: the matrix as bytes, outputs x bytes of a row.
    """
    if kind not in KINDS:
        return None
    size, read = KINDS[kind]
    rows = max(1, _AT_ONCE // data.shape[1])
    found = [_some(size, read, data[at : at + rows]) for at in range(0, len(data), rows)]
    whole: dict[str, Any] = {}
    for name in ("codes", *_NUMBERS):
        arrays = [array for each in found if (array := getattr(each, name)) is not None]
        whole[name] = np.concatenate(arrays) if arrays else None
    return replace(found[0], **whole)


def _some(size: int, read: Callable[[_Array], _Parts], data: _Array) -> BlockedWeights:
    """Some rows of a matrix: what a block is read as on the way takes many times its bytes."""
    outputs = data.shape[0]
    parts = read(np.ascontiguousarray(data).reshape(-1, size))
    codes = parts.codes.astype(np.uint8 if parts.bits == 4 else np.int8)
    numbers: dict[str, Any] = {
        name: None if (of := getattr(parts, name)) is None else of.reshape(outputs, -1)
        for name in _NUMBERS
    }
    return BlockedWeights(
        codes=codes.reshape(outputs, -1),
        bits=parts.bits,
        group=codes.shape[-1],
        zero=parts.zero,
        **numbers,
    )


def _q4_0(data: _Array) -> _Parts:
    return _Parts(codes=_nibbles(data[:, 2:]), bits=4, zero=8, scale=_halves(data[:, :2]))


def _q4_1(data: _Array) -> _Parts:
    scale, least = _halves(data[:, :2]), _halves(data[:, 2:4])
    return _Parts(codes=_nibbles(data[:, 4:]), bits=4, scale=scale, least=least)


def _q5_0(data: _Array) -> _Parts:
    codes = _nibbles(data[:, 6:]) | _bits(data[:, 2:6]) << 4
    return _Parts(codes=codes.astype(np.int16) - 16, bits=8, scale=_halves(data[:, :2]))


def _q5_1(data: _Array) -> _Parts:
    codes = _nibbles(data[:, 8:]) | _bits(data[:, 4:8]) << 4
    return _Parts(codes=codes, bits=8, scale=_halves(data[:, :2]), least=_halves(data[:, 2:4]))


def _q8_0(data: _Array) -> _Parts:
    return _Parts(codes=data[:, None, 2:].view(np.int8), bits=8, scale=_halves(data[:, :2]))


def _q4_k(data: _Array) -> _Parts:
    codes = _nibbles(data[:, 16:].reshape(len(data), -1, 32))
    return _Parts(codes=codes.reshape(len(data), _K_GROUPS, -1), bits=4, **_k_numbers(data))


def _q5_k(data: _Array) -> _Parts:
    low = _nibbles(data[:, 48:].reshape(len(data), -1, 32)).reshape(len(data), _K_GROUPS, -1)
    # A byte has the fifth bit of one code of each group.
    high = _bits(data[:, 16:48]).reshape(len(data), -1, _K_GROUPS).swapaxes(1, 2)
    return _Parts(codes=low | high << 4, bits=8, **_k_numbers(data))


def _q6_k(data: _Array) -> _Parts:
    low = _nibbles(data[:, :128].reshape(len(data), 2, 64))
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    pairs = data[:, 128:192].reshape(len(data), 2, 1, 32) >> shifts
    high = (pairs & 3).reshape(low.shape)
    codes = (low | high << 4).astype(np.int16) - 32
    return _Parts(
        codes=codes.reshape(len(data), 16, 16),
        bits=8,
        scale=data[:, 192:208].view(np.int8),
        scale_factor=_halves(data[:, 208:]).astype(np.float32),
    )


KINDS: Mapping[str, tuple[int, Callable[[_Array], _Parts]]] = MappingProxyType(
    {
        "Q4_0": (18, _q4_0),
        "Q4_1": (20, _q4_1),
        "Q5_0": (22, _q5_0),
        "Q5_1": (24, _q5_1),
        "Q8_0": (34, _q8_0),
        "Q4_K": (144, _q4_k),
        "Q5_K": (176, _q5_k),
        "Q6_K": (210, _q6_k),
    }
)
"""Bytes of a block of each kind that can be read, and how."""


def _halves(data: _Array) -> _Array:
    """16-bit floats, one for each block."""
    return np.ascontiguousarray(data).view(np.float16)


def _nibbles(data: _Array) -> _Array:
    """Codes of four bits, runs x 1 x twice the bytes: a run's low halves, then its high ones."""
    return np.concatenate([data & 15, data >> 4], axis=-1)[..., None, :]


def _bits(data: _Array) -> _Array:
    """Single bits, the lowest of each byte first, blocks x 1 x all of them."""
    return np.unpackbits(np.ascontiguousarray(data), axis=-1, bitorder="little")[:, None]


def _k_numbers(data: _Array) -> dict[str, Any]:
    """Scales and least values of a K-block's groups, and their factors.

    Each is a number of 6 bits times one of the block: of the first four groups in the low bits of
    a byte, of the last four in two pieces.
    """
    first, second, low = (data[:, at : at + 4] for at in (4, 8, 12))
    scale = np.concatenate([first & 63, low & 15 | first >> 6 << 4], axis=-1)
    least = np.concatenate([second & 63, low >> 4 | second >> 6 << 4], axis=-1)
    factors = [_halves(data[:, at : at + 2]).astype(np.float32) for at in (0, 2)]
    return {
        "scale": scale.view(np.int8),
        "scale_factor": factors[0],
        "least": least.view(np.int8),
        "least_factor": -factors[1],
    }
