"""How attention of many queries is cut up: tiles of queries, keys at once, blocks of keys."""

import math
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.attention import Attention, Term
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups

__all__ = ["QueryTiling", "by_query", "query_tiling"]

_MOST_SUMS = 24
_SMALL = 64
"""Keys of a block under masks: at 64 a causal prompt of 256 computes a ninth more than it needs."""
_LEAST_SMALL = 4
_NUMBERS = 8  # of each query: its largest score, its sum, what they were before


@dataclass(frozen=True, kw_only=True)
class QueryTiling:
    """How attention is cut up.

    Attributes:
        lanes: queries of a vector, and elements of a result's.
        vectors: of queries in a tile.
        keys: whose scores are summed at once.
        block: keys whose scores lie on the stack at once.
        rows, columns: queries, and vectors of their results, that are summed at once.
        bends: keys whose terms lie on the stack at once, where these differ by query and by key.
        tiles: how many there are; the last may overlap the one before it.
        split: workgroups across the tiles.
    """

    lanes: int
    vectors: int
    keys: int
    block: int
    rows: int
    columns: int
    bends: int
    tiles: int
    split: int

    @property
    def tile(self) -> int:
        """Queries of a tile."""
        return self.vectors * self.lanes


def query_tiling(attention: Attention, unit: VectorUnit) -> QueryTiling | None:
    """The cut; None where there are too few queries, elements are no neighbours, or rows too long.

    A tile's queries lie on the stack, whole: of a channel's attention that is all pixels.
    """
    a, lanes = attention, unit.lanes
    if min(a.queries, a.width, a.depth) < lanes or 1 not in (a.q.column, a.q.row):
        return None
    most = 2 if unit.registers == 16 or lanes > 8 else 4
    able = [
        n
        for n in (1, 2, 4)
        if n <= most and n * lanes <= a.queries and _stack(a, n * lanes, unit) <= unit.stack
    ]
    if not able:
        return None
    vectors = min(able, key=lambda n: -(-a.queries // (n * lanes)) * (2 * n + 1))
    tile = vectors * lanes
    room = (unit.registers - vectors - 1) // vectors
    if unit.by_lane:  # a register beside the sums for the neighbours of each key
        room = (unit.registers - vectors) // (vectors + 1)
    at_once = min(a.keys, room)
    bent = any(by_query(term) for term in a.terms)
    fitting = {
        n: block
        for n in range(max(1, at_once // 2), at_once + 1)
        if (block := _block(a, n, a.stack // (4 * tile)))
        and not (bent and _whole(n, lanes) > a.keys)
    }
    if not fitting:
        return None
    keys = min(fitting, key=lambda n: -(-a.keys // n) * (n + 1))
    columns = min(a.depth // lanes, most)
    sums = min(_MOST_SUMS, unit.registers - columns - 1)
    tiles = -(-a.queries // tile)
    return QueryTiling(
        lanes=lanes,
        vectors=vectors,
        keys=keys,
        block=fitting[keys],
        rows=max(n for n in range(1, sums // columns + 1) if tile % n == 0),
        columns=columns,
        bends=_whole(keys, lanes) if bent else 0,
        tiles=tiles,
        split=even(tiles, -(-workgroups(a.flops) // a.count)),
    )


def _stack(a: Attention, tile: int, unit: VectorUnit) -> int:
    """Bytes of stack for so many queries at most: they, scores, sums, a few numbers, and terms."""
    bends = unit.registers * sum(map(by_query, a.terms))
    return a.stack + 4 * tile * (a.width + a.depth + _NUMBERS + bends)


def _whole(count: int, lanes: int) -> int:
    """A count in whole vectors."""
    return -(-count // lanes) * lanes


def _block(a: Attention, at_once: int, room: int) -> int | None:
    """Keys of a block: all, or what half of the room holds; the last has `at_once` or more.

    Few where a mask hides other keys from each query: a block that all of a tile's queries do not
    see is left out, and one that a query sees a key of is computed whole.
    """
    most = room // 2 // at_once
    counts: list[int]
    if a.keys >= _LEAST_SMALL * _SMALL and any(map(_hides, a.terms)):
        few = -(-_SMALL // at_once)
        counts = [*range(few, most + 1), *range(min(few - 1, most), 0, -1)]
    elif a.keys <= room:
        return a.keys
    else:
        counts = [*range(most, 0, -1)]
    for count in counts:
        rest = a.keys % (count * at_once)
        if rest == 0 or rest >= at_once:
            return count * at_once
    return None


def _hides(term: Term) -> bool:
    """Whether a mask says by query which keys count for nothing."""
    return by_query(term) and term.keep is not None and term.otherwise == -math.inf


def by_query(term: Term) -> bool:
    """Whether what a term says differs by query."""
    return term.view.row != 0
