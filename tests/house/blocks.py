"""A page's code blocks, in order, and what the page's comments say of running them.

A comment just before a block says what becomes of it: `<!-- not run: why -->`, or `<!-- file: NAME
-->` for text that a reader would save. A block inside a comment (`<!-- before: … -->`) runs like
any other, and readers do not see it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "Command", "blocks", "commands"]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<kind>not run|file): (?P<what>.*?) -->\n+)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block of code.

    Attributes:
        page: the page, and `line` where the block's fence opens.
        language: the word after the fence; empty if there is none.
        text: what is in it.
        file: where it is to be saved; empty if nowhere.
        not_run: why it does not run; empty if it does.
    """

    page: Path
    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""

    @property
    def place(self) -> str:
        """`export.md:12`."""
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A line after a `$`, and what the page shows of its output; `…` stands for anything."""

    line: str
    shows: tuple[str, ...]

    @property
    def may_fail(self) -> bool:
        """Whether the page shows an error."""
        return any("error:" in text or '"error"' in text for text in self.shows)

    def shown_by(self, output: list[str]) -> bool:
        """Whether the lines of an output are those shown.

        Alone on a line `…` stands for lines, within one for a part of it; blanks in such a line
        are any number.
        """
        places = {0}  # how many lines of the output the lines looked at so far can stand for
        for text in self.shows:
            if text == "…":
                places = set(range(min(places), len(output) + 1))
                continue
            line = re.compile(_pattern(text))
            places = {n + 1 for n in places if n < len(output) and line.fullmatch(output[n])}
            if not places:
                return False
        return len(output) in places


def blocks(page: Path) -> Iterator[Block]:
    """Every block of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        what = found["what"] or ""
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            file=what if found["kind"] == "file" else "",
            not_run=what if found["kind"] == "not run" else "",
        )


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *shows = part.rstrip("\n").split("\n")
        yield Command(line=line, shows=tuple(shows))


def _pattern(text: str) -> str:
    exact = re.escape(text).replace("…", ".*")
    return (exact.replace(r"\ ", r"\s*") if "…" in text else exact) + " *"
