"""The page docs/operators.md to its columns, so that those stay that are not measured anew."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.standing import commits

__all__ = ["MEASURED", "Column", "columns_of"]

MEASURED = "measured at"
"""The row of the table that names each column's commits."""

_SECTION = re.compile(r"^## (.* (?:on|for) (cpu|vulkan|cuda)(, IREE's driver)?\b.*)$")


@dataclass(frozen=True, kw_only=True)
class Column:
    """What the page says of one way to run the cases.

    Attributes:
        cells: the column of the table, by its rows' names.
        sections: what is told below, by heading.
    """

    cells: Mapping[str, str]
    sections: Mapping[str, Sequence[str]]

    @property
    def commits(self) -> list[str]:
        """The commits that it was measured at."""
        return commits(f"Measured at commits {self.cells[MEASURED].replace('`', '')}")


def columns_of(text: str) -> dict[str, Column]:
    """The columns of a page by name; none of a page without the row of commits.

    Args:
        text: the page.
    """
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    if not any(row[0] == MEASURED for row in table):
        return {}
    head, *rows = table
    return {
        name: Column(cells={row[0]: row[at] for row in rows}, sections=_sections(text, name))
        for at, name in enumerate(head)
        if at
    }


def _sections(text: str, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        fits = _SECTION.match(heading)
        if fits and f"{fits[2]}{fits[3] or ''}" == name:
            found[fits[1]] = body.strip().splitlines()
    return found
