"""A graph to places on a plane: each node below all that it reads, lines of edges kept short."""

from collections.abc import Sequence

__all__ = ["WIDTH", "laid_out"]

WIDTH = 14
"""Nodes in one row at most; a wider row goes on in the next."""
_SWEEPS = 4


def laid_out(reads: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Column and row of each node.

    A node's row is below those of all that it reads; within a row nodes stand in the order of the
    middle of what they read, then of what reads them. What reads nothing stands above its first
    reader.

    Args:
        reads: for each node the earlier nodes that it reads.
    """
    count = len(reads)
    readers: list[list[int]] = [[] for _ in range(count)]
    for node, sources in enumerate(reads):
        for source in sources:
            readers[source].append(node)
    row = [0] * count
    for node, sources in enumerate(reads):
        row[node] = max((row[source] + 1 for source in sources), default=0)
    for node in reversed(range(count)):
        if not reads[node] and readers[node]:
            row[node] = max(0, min(row[reader] for reader in readers[node]) - 1)
    rows: dict[int, list[int]] = {}
    for node, number in enumerate(row):
        rows.setdefault(number, []).append(node)
    ordered = [rows[number] for number in sorted(rows)]
    column = [0.0] * count
    for line in ordered:
        _place(line, column)
    for sweep in range(_SWEEPS):
        near = reads if sweep % 2 == 0 else readers
        for line in ordered if sweep % 2 == 0 else reversed(ordered):
            middles = {
                node: sum(column[other] for other in near[node]) / len(near[node])
                if near[node]
                else column[node]
                for node in line
            }
            line.sort(key=middles.__getitem__)
            _place(line, column)
    found = [(0, 0)] * count
    down = 0
    for line in ordered:
        for start in range(0, len(line), WIDTH):
            part = line[start : start + WIDTH]
            for place, node in enumerate(part):
                found[node] = (2 * place - len(part) + 1, down)
            down += 1
    return found


def _place(line: Sequence[int], column: list[float]) -> None:
    """Nodes of a row side by side around the middle."""
    for place, node in enumerate(line):
        column[node] = place - (len(line) - 1) / 2
