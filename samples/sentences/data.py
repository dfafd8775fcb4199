"""Real sentences, from books in the public domain, and questions to look up among them."""

from dataclasses import dataclass
from pathlib import Path

QUESTIONS = (
    "a boy who never becomes an adult",
    "a rich bachelor ought to marry",
    "creatures from another planet observe us",
    "living alone in the forest",
    "a sailor tells his name",
    "cleaning the house",
    "evolution of species",
    "a poor holiday without gifts",
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A sentence, and who wrote it where."""

    source: str
    text: str


def library() -> list[Line]:
    """The sentences of `sentences.tsv`."""
    rows = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [row.split("\t") for row in rows]
    return [Line(source=source, text=text) for source, text in pairs]
