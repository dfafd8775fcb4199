"""Blocks of a report to text: plain lines for a pipe, tables fitted to the width on a terminal."""

import os
import re
from collections.abc import Sequence
from typing import TextIO

from edgec.cli.report import Block, Grid

__all__ = ["plain", "printable", "wants_colour", "write_blocks"]

_GAP = "  "


def printable(text: str) -> str:
    """The text with control characters spelled out: names in files must not steer a terminal."""
    return re.sub(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]",
        lambda found: found.group().encode("unicode_escape").decode(),
        text,
    )


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours and nobody asked for none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain(blocks: Sequence[Block]) -> str:
    """Text without colours or wrapping: a line a row, columns aligned by spaces."""
    parts = (_plain_grid(b) if isinstance(b, Grid) else printable(b) for b in blocks)
    return "".join(f"{part}\n" for part in parts)


def write_blocks(blocks: Sequence[Block], stream: TextIO) -> None:
    """Write blocks as fits the stream."""
    if not stream.isatty():
        stream.write(plain(blocks))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, no_color=not wants_colour(stream), highlight=False)
    for block in blocks:
        if isinstance(block, str):
            console.print(Text(printable(block)), soft_wrap=True)
            continue
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for number, column in enumerate(block.columns):
            justify = "right" if number in block.right else "left"
            table.add_column(printable(column), justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in block.rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        console.print(table)


def _plain_grid(grid: Grid) -> str:
    rows = [tuple(printable(cell) for cell in row) for row in (grid.columns, *grid.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(grid.columns))]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if column in grid.right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines)
