"""Several views over the same indices, to the fewest indices that each of them has one step for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgec.toolchain.ir.views import Digit

__all__ = ["Index", "fewest", "refined"]


@dataclass(frozen=True, kw_only=True)
class Index:
    """An index with one step in each view.

    Attributes:
        size: how many values it has.
        steps: for each view, from one value to the next.
    """

    size: int
    steps: tuple[int, ...]


def refined(size: int, runs: Sequence[tuple[Digit, ...]]) -> list[Index] | None:
    """An axis cut so that each view has one step for each part, the outermost first.

    Args:
        size: of the axis.
        runs: the axis's parts in each view.

    Returns:
        None where the parts of two views do not nest.
    """
    if size == 1:
        return []
    inner = [_inner_sizes(run) for run in runs]
    cuts = sorted({cut for sizes in inner for cut in sizes})
    if cuts[-1] != size or any(b % a for a, b in pairwise(cuts)):
        return None
    parts: list[Index] = []
    for low, high in pairwise(cuts):
        steps = []
        for run, sizes in zip(runs, inner, strict=True):
            at = max(i for i, cut in enumerate(sizes) if cut <= low)
            digit = run[len(run) - 1 - at]
            steps.append(digit.step * (low // sizes[at]))
        parts.insert(0, Index(size=high // low, steps=tuple(steps)))
    return parts


def _inner_sizes(run: tuple[Digit, ...]) -> list[int]:
    """1, then the size of the innermost part, of the two innermost, and so on."""
    return [math.prod(digit.size for digit in run[len(run) - n :]) for n in range(len(run) + 1)]


def fewest(indices: Sequence[Index]) -> list[Index]:
    """Neighbouring indices that are one in every view joined."""
    found: list[Index] = []
    for index in indices:
        if index.size == 1:
            continue
        if found and all(
            outer == inner * index.size
            for outer, inner in zip(found[-1].steps, index.steps, strict=True)
        ):
            index = Index(size=found.pop().size * index.size, steps=index.steps)
        found.append(index)
    return found
