"""Rows of a square to its columns, in registers, and to the sums of its rows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from edgec.toolchain.kernels.cpu.source.body import Body

__all__ = ["lane_sums", "turned", "turned_by"]

_Vector = TypeVar("_Vector")


def turned(body: Body, rows: Sequence[str], kind: str) -> list[str]:
    """The columns of as many vectors as one has elements, a power of two."""

    def shuffle(one: str, other: str, picks: list[int]) -> str:
        return body.value(
            f"vector.shuffle {one}, {other} [{', '.join(map(str, picks))}]", f"{kind}, {kind}"
        )

    return turned_by(shuffle, rows)


def lane_sums(body: Body, rows: Sequence[str], kind: str) -> str:
    """The sum of each of as many vectors as one has elements, side by side in their order.

    As `turned`, but what would change places is added: half of the vectors are left each time.
    """
    rows, count = list(rows), len(rows)
    bit = 1
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = []
        for pair in pairs:
            halves = []
            for own in (0, bit):
                picks = [(count if c & bit else 0) + (c & ~bit) + own for c in range(count)]
                text = f"vector.shuffle {pair[0]}, {pair[1]} [{', '.join(map(str, picks))}]"
                halves.append(body.value(text, f"{kind}, {kind}"))
            rows.append(body.value(f"arith.addf {halves[0]}, {halves[1]}", kind))
        bit *= 2
    return rows[0]


def turned_by(
    shuffle: Callable[[_Vector, _Vector, list[int]], _Vector], rows: Sequence[_Vector]
) -> list[_Vector]:
    """As `turned`, of vectors of any kind.

    Rows are exchanged with columns one bit of their numbers at a time: of two rows that differ in
    that bit, the elements whose columns differ in it change places.

    Args:
        shuffle: a vector of the elements at these places of two, one behind the other.
        rows: the vectors.
    """
    rows = list(rows)
    count = len(rows)
    bit = 1
    while bit < count:
        for low in (row for row in range(count) if not row & bit):
            pair = rows[low], rows[low + bit]
            for number, own in ((low, 0), (low + bit, bit)):
                picks = [
                    (count if column & bit else 0) + (column & ~bit) + own
                    for column in range(count)
                ]
                rows[number] = shuffle(*pair, picks)
        bit *= 2
    return rows
