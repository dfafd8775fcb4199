"""Elements of values by indices of a domain: what moves data becomes another index.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir import write as graph

__all__ = ["Index", "NoMatch", "Point", "dense", "moved", "whole"]


class NoMatch(Exception):
    """What was looked at has no form that the kernel knows."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """An index along one axis: `start` plus each of the domain's indices times a step."""

    start: int = 0
    steps: tuple[int, ...]

    @property
    def axis(self) -> int | None:
        """The domain's axis that it is, if it is one of them; None for a constant."""
        moving = [axis for axis, step in enumerate(self.steps) if step]
        return moving[0] if len(moving) == 1 else None


Point = tuple[Index, ...]
"""An index for each axis of a value."""


def dense(sizes: Sequence[int]) -> list[int]:
    """The step of each axis of a value whose elements lie side by side."""
    steps = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * sizes[axis + 1]
    return steps


def whole(sizes: Sequence[int]) -> tuple[tuple[int, ...], Point]:
    """A domain of all elements of a value, and its point: axes of one element are left out."""
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    rank = max(1, len(axes))
    domain = tuple(sizes[axis] for axis in axes) or (1,)
    point = tuple(
        Index(steps=tuple(int(axis in axes and axes.index(axis) == d) for d in range(rank)))
        for axis in range(len(sizes))
    )
    return domain, point


def moved(op: Any, point: Point, domain: Sequence[int]) -> Point | None:
    """Where the operand of a move has the element that its result has at `point`.

    None for a reshape whose operand has no index for it.
    """
    source = graph.shape(op.operands[0])
    match op.name:
        case "stablehlo.broadcast_in_dim":
            axes = graph.integers(op, "broadcast_dimensions")
            return tuple(
                point[axis] if size > 1 else _nothing(domain)
                for axis, size in zip(axes, source, strict=True)
            )
        case "stablehlo.transpose":
            order = graph.integers(op, "permutation")
            return tuple(point[order.index(axis)] for axis in range(len(order)))
        case "stablehlo.slice":
            starts, strides = graph.integers(op, "start_indices"), graph.integers(op, "strides")
            return tuple(
                Index(start=a + s * p.start, steps=tuple(s * n for n in p.steps))
                for a, s, p in zip(starts, strides, point, strict=True)
            )
        case _:
            return _reshaped(point, graph.shape(op.results[0]), source, domain)


def _nothing(domain: Sequence[int]) -> Index:
    return Index(steps=(0,) * len(domain))


def _reshaped(
    point: Point, sizes: Sequence[int], source: Sequence[int], domain: Sequence[int]
) -> Point | None:
    """The point of `source` with the place in memory that `point` has in `sizes`."""
    start = 0
    steps = [0] * len(domain)
    for size, index in zip(dense(sizes), point, strict=True):
        start += size * index.start
        for d, step in enumerate(index.steps):
            steps[d] += size * step
    starts = [0] * len(source)
    parts = [[0] * len(domain) for _ in source]
    for axis, size in enumerate(dense(source)):
        starts[axis], start = divmod(start, size)
        for d, step in enumerate(steps):
            if source[axis] > 1:
                parts[axis][d], steps[d] = divmod(step, size)
    for axis, extent in enumerate(source):
        most = starts[axis] + sum(p * (n - 1) for p, n in zip(parts[axis], domain, strict=True))
        if most >= extent:
            return None
    return tuple(Index(start=a, steps=tuple(p)) for a, p in zip(starts, parts, strict=True))
