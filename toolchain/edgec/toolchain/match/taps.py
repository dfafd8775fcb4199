"""A matrix along one axis as what it does: a cut, repeats, pieces, or a few weighted elements."""

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Pieces", "Repeat", "Scale", "Taps", "read_taps"]

_Array = np.ndarray[Any, np.dtype[Any]]
_MOST_PIECES = 8


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Elements from `start` on, each `times` in a row."""

    start: int
    count: int
    times: int


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Cuts one after another, each with its first element, its length and its step."""

    cuts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """Each element times a number of its own."""

    weights: _Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Taps:
    """A few weighted elements for each element of the result.

    Attributes:
        size: elements along the axis of the source.
        places: which elements, one row for each of the result.
        weights: what each is multiplied with.
    """

    size: int
    places: _Array
    weights: _Array

    @property
    def moves_only(self) -> bool:
        """Whether each element of the result is one of the source as it is."""
        return self.places.shape[1] == 1 and bool((self.weights == 1).all())

    def matrix(self) -> _Array:
        """The weights of all elements of the source, one row for each of the result."""
        whole = np.zeros((len(self.places), self.size))
        np.add.at(whole, (np.arange(len(self.places))[:, None], self.places), self.weights)
        return whole


def read_taps(matrix: _Array) -> Repeat | Pieces | Scale | Taps:
    """What a matrix does that has a row for each element of the result."""
    rows, size = matrix.shape
    chosen = (matrix != 0).sum(1) == 1
    if bool(chosen.all()) and bool((matrix.max(1) == 1).all()):
        return _read_choice(matrix.argmax(1), size)
    if rows == size and bool((matrix == np.diag(np.diag(matrix))).all()):
        return Scale(weights=np.diag(matrix))
    count = max(1, int((matrix != 0).sum(1).max()))
    places = np.zeros((rows, count), np.int32)
    weights = np.zeros((rows, count))
    for row, line in enumerate(matrix):
        found = np.flatnonzero(line)
        if not len(found):
            continue
        # A row with fewer splits its last element, so that nothing else is read (0 * inf is nan).
        extra = count - len(found)
        places[row] = [*found, *[found[-1]] * extra]
        share = line[found[-1]] * 0.5 ** np.arange(1, extra + 1)
        weights[row] = [*line[found[:-1]], *share, line[found[-1]] * 0.5**extra]
    return Taps(size=size, places=places, weights=weights)


def _read_choice(indices: _Array, size: int) -> Repeat | Pieces | Taps:
    times = 1
    while times < len(indices) and indices[times] == indices[0]:
        times += 1
    if times > 1 and len(indices) % times == 0:
        start, count = int(indices[0]), len(indices) // times
        if bool((indices == np.repeat(np.arange(start, start + count), times)).all()):
            return Repeat(start=start, count=count, times=times)
    cuts: list[tuple[int, int, int]] = []
    at = 0
    while at < len(indices) and len(cuts) <= _MOST_PIECES:
        end = at + 1
        step = int(indices[end] - indices[at]) if end < len(indices) else 1
        while end < len(indices) and indices[end] - indices[end - 1] == step and step > 0:
            end += 1
        cuts.append((int(indices[at]), end - at, step if end - at > 1 else 1))
        at = end
    if at == len(indices) and len(cuts) <= _MOST_PIECES:
        return Pieces(cuts=tuple(cuts))
    return Taps(size=size, places=indices.reshape(-1, 1), weights=np.ones((len(indices), 1)))
