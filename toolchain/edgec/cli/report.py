"""What a verb hands back: data for `--json`, and blocks of text for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.errors import EdgecError

__all__ = ["SCHEMA", "Block", "Grid", "Report"]

SCHEMA = 1
"""The version of every verb's JSON object; it grows when a key changes its meaning or goes away."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Rows of text under column names; `right` are the numbers of right-aligned columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"each row needs {len(self.columns)} cells")


Block = str | Grid


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of a verb.

    Attributes:
        data: plain JSON types; `schema` and `verb` are added when it is printed.
        blocks: the same for people, each block on lines of its own.
        file: what was asked for on stdout, which then has nothing else; the blocks go to stderr.
        error: a failure found after there was something to show (answers that differ).
        exit_code: without an error, 0, or 1 where the verb's question has the answer no.
    """

    data: Mapping[str, Any]
    blocks: tuple[Block, ...] = ()
    file: Path | None = None
    error: EdgecError | None = None
    exit_code: int = 0
