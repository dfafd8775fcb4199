"""Sums of products where one lane of a register can stand for all: four factors are read at once.

A processor that multiplies a vector by a lane of another (64-bit Arm) needs no load for each number
that meets a vector: neighbouring factors of a row come as one vector. So what is summed goes by
quads; what is left of it comes first, one by one.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.nest import summed_loops
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["QUAD", "Factors", "multiplied", "summed_by_quads"]

QUAD = 4


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Where factors lie: `offsets` elements from a place in memory on, the first of each."""

    at: str
    memory: str
    kind: str
    offsets: Sequence[int]


def multiplied(
    w: Writer,
    sums: Sequence[str],
    rows: Factors,
    panel: Factors,
    *,
    lanes: int,
    width: int,
    count: int = QUAD,
) -> Generator[str, None, list[str]]:
    """Add `count` neighbours of each row times the panel's vectors to `sums`; the new names.

    Args:
        w: the kernel's writer.
        sums: for each row, those of each vector.
        rows: the first neighbour of each row.
        panel: the vectors that the first neighbours are multiplied with.
        lanes: values of a vector.
        width: elements from a neighbour's vectors to those of the next.
        count: `QUAD`, or 1.
    """
    kind = f"vector<{lanes}xf32>"
    read = f"vector<{QUAD}xf32>" if count == QUAD else "f32"
    values = []
    for offset in rows.offsets:
        place, value = w.fresh(), w.fresh()
        values.append(value)
        yield f"{place} = arith.addi {rows.at}, {w.index(offset)} : index"
        if count == QUAD:
            yield f"{value} = vector.load {rows.memory}[{place}] : {rows.kind}, {read}"
        else:
            yield f"{value} = memref.load {rows.memory}[{place}] : {rows.kind}"
    totals = list(sums)
    for neighbour in range(count):
        factors = []
        for offset in panel.offsets:
            place, factor = w.fresh(), w.fresh()
            factors.append(factor)
            yield f"{place} = arith.addi {panel.at}, {w.index(neighbour * width + offset)} : index"
            yield f"{factor} = vector.load {panel.memory}[{place}] : {panel.kind}, {kind}"
        for row, value in enumerate(values):
            wide = w.fresh()
            if count == QUAD:
                lane = ", ".join([str(neighbour)] * lanes)
                yield f"{wide} = vector.shuffle {value}, {value} [{lane}] : {read}, {read}"
            else:
                yield f"{wide} = vector.broadcast {value} : f32 to {kind}"
            for v, factor in enumerate(factors):
                number, total = row * len(factors) + v, w.fresh()
                yield from w.multiply_add(total, wide, factor, totals[number], kind, fused=True)
                totals[number] = total
    return totals


def summed_by_quads(
    w: Writer,
    loops: Sequence[tuple[str, int]],
    length: int,
    begin: Sequence[str],
    kind: str,
    place: Callable[[], Iterable[str]],
    neighbours: Callable[[list[str], str, int], Generator[str, None, list[str]]],
) -> Iterator[str]:
    """Loops as `summed_loops` writes them, the innermost over quads; the sums become `%sum#…`.

    Args:
        w: the kernel's writer.
        loops: name and size of each but the innermost.
        length: how many neighbours are summed there; at least a quad.
        begin: what the sums are before.
        kind: the type of each.
        place: written before the innermost loop, whose address it may work out.
        neighbours: adds to the sums so many neighbours from the one of that number on.
    """
    quads, rest = divmod(length, QUAD)

    def lead(sums: list[str]) -> Generator[str, None, list[str]]:
        for number in range(rest):
            sums = yield from neighbours(sums, w.index(number), 1)
        return sums

    def quad(sums: list[str]) -> Iterator[str]:
        yield f"%k0 = arith.muli %k, {w.index(QUAD)} : index"
        yield f"%k1 = arith.addi %k0, {w.index(rest)} : index"
        done = yield from neighbours(sums, "%k1", QUAD)
        yield f"scf.yield {', '.join(done)} : {', '.join([kind] * len(done))}"

    yield from summed_loops(w, [*loops, ("k", quads)], begin, kind, place, quad, lead)
