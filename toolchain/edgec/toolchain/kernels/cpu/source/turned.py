"""Rows of a square to its columns, in registers."""

from collections.abc import Sequence

from edgec.toolchain.kernels.cpu.source.body import Body

__all__ = ["turned"]


def turned(body: Body, rows: Sequence[str], kind: str) -> list[str]:
    """The columns of as many vectors as one has elements, a power of two.

    Rows are exchanged with columns one bit of their numbers at a time: of two rows that differ in
    that bit, the elements whose columns differ in it change places.
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
                rows[number] = body.value(
                    f"vector.shuffle {pair[0]}, {pair[1]} [{', '.join(map(str, picks))}]",
                    f"{kind}, {kind}",
                )
        bit *= 2
    return rows
