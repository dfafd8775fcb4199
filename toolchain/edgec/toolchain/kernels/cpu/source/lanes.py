"""The lanes of vectors brought together: of one to a number, of four to a vector of their sums."""

from collections.abc import Callable, Sequence

from edgec.toolchain.kernels.cpu.source.body import Body

__all__ = ["of_all_lanes", "side_by_side"]


def of_all_lanes(
    body: Body, vector: str, lanes: int, both: Callable[[str, str, str], str], kind: str = "f32"
) -> str:
    """A number of all lanes of a vector, of which `both` makes one of two; a scalar's name."""
    while lanes > 1:
        wide, lanes = f"vector<{lanes}x{kind}>", lanes // 2
        halves = [_part(body, vector, start, lanes, wide) for start in (0, lanes)]
        vector = both(halves[0], halves[1], f"vector<{lanes}x{kind}>")
    return body.value(f"vector.extract {vector}[0]", f"{kind} from vector<1x{kind}>")


def side_by_side(
    body: Body,
    totals: Sequence[str],
    lanes: int,
    join: Callable[[str, str, str], str] | None = None,
) -> str:
    """The sums of four vectors' lanes, as a vector of four; `join` makes one of two instead."""
    kind = f"vector<{lanes}xf32>"

    def added(one: str, other: str, of: str) -> str:
        return body.value(f"arith.addf {one}, {other}", of)

    join = join or added

    def both(one: str, other: str, width: int) -> str:
        """Neighbouring parts of two vectors added, those of one beside those of the other."""
        starts = range(0, lanes, 2 * width)
        orders = [
            [of + s + half + i for s in starts for of in (0, lanes) for i in range(width)]
            for half in (0, width)
        ]
        picked = [
            body.value(
                f"vector.shuffle {one}, {other} [{', '.join(map(str, order))}]", f"{kind}, {kind}"
            )
            for order in orders
        ]
        return join(picked[0], picked[1], kind)

    total = both(both(totals[0], totals[1], 1), both(totals[2], totals[3], 1), 2)
    while lanes > len(totals):
        wide, lanes = f"vector<{lanes}xf32>", lanes // 2
        halves = [_part(body, total, start, lanes, wide) for start in (0, lanes)]
        total = join(halves[0], halves[1], f"vector<{lanes}xf32>")
    return total


def _part(body: Body, vector: str, start: int, count: int, kind: str) -> str:
    """Neighbouring lanes of a vector."""
    order = ", ".join(str(start + i) for i in range(count))
    return body.value(f"vector.shuffle {vector}, {vector} [{order}]", f"{kind}, {kind}")
