"""How figures and tables are written."""

from collections.abc import Sequence

__all__ = ["digits", "table"]


def digits(milliseconds: float) -> str:
    """Three digits."""
    places = 0 if milliseconds >= 100 else 1 if milliseconds >= 10 else 2
    return f"{milliseconds:.{places}f}"


def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [f"| {title} | {' | '.join(line)} |" for title, line in zip(titles, lines, strict=True)]
    rows.insert(1, "|---|" + "---:|" * len(lines[0]))
    return "\n".join(rows) + "\n"
