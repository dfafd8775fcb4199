"""Gathers by tables that grow by the same step along each axis, as windows that slide over memory.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.match.resample import tables_of

__all__ = ["Run", "read_sliding"]

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Which elements along an axis of what is gathered from: `start`, and so many steps.

    Attributes:
        start: the first element.
        parts: the axis of the result, the number of elements and the step between two for each
            index, the larger step first; of equal ones the longer first. None is one element.
    """

    start: int
    parts: tuple[tuple[int, int, int], ...]

    @property
    def slides(self) -> bool:
        """Whether it is a window of several elements at several places."""
        return len(self.parts) > 1


def read_sliding(op: Any, known: Constants) -> list[Run] | None:
    """For each axis of what a gather reads, its run; None where some axis has none.

    Args:
        op: a `stablehlo.gather`.
        known: the constants of its program.
    """
    tables = tables_of(op, known)
    runs = [_run(axes, table) for axes, table in tables or ()]
    found = [run for run in runs if run is not None]
    return found if found and len(found) == len(runs) else None


def _run(axes: Sequence[int], table: _Array) -> Run | None:
    start = int(table.flat[0])
    parts, sums = [], np.full((), start, np.int64)
    for place, (axis, size) in enumerate(zip(axes, table.shape, strict=True)):
        if size == 1:
            sums = sums[..., None]
            continue
        first = table[(0,) * place + (1,) + (0,) * (table.ndim - place - 1)]
        step = int(first) - start
        if step < 1:
            return None
        parts.append((axis, size, step))
        sums = sums[..., None] + step * np.arange(size)
    if len(parts) > 2 or not np.array_equal(sums, table):
        return None
    parts.sort(key=lambda part: (part[2], part[1]), reverse=True)
    return Run(start=start, parts=tuple(parts))
