"""How attention of many queries is cut up: tiles of queries, keys at once, blocks of keys."""

from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.attention import Attention, Term
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups

__all__ = ["QueryTiling", "by_query", "query_tiling"]

_MOST_SUMS = 24
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
        if (block := _block(a.keys, n, a.stack // (4 * tile)))
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


def _block(keys: int, at_once: int, room: int) -> int | None:
    """Keys of a block: all, or what half of the room holds; the last has `at_once` or more."""
    if keys <= room:
        return keys
    for count in range(room // 2 // at_once, 0, -1):
        rest = keys % (count * at_once)
        if rest == 0 or rest >= at_once:
            return count * at_once
    return None


def by_query(term: Term) -> bool:
    """Whether what a term says differs by query."""
    return term.view.row != 0
