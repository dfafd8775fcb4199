"""Options of the verbs that write text, and a text to a terminal as it is written."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.layout import printable
from edgec.cli.session import Session

if TYPE_CHECKING:
    from edgec.runtime.text import Answer

__all__ = [
    "LimitOption",
    "MinPOption",
    "RepetitionPenaltyOption",
    "SeedOption",
    "TemperatureOption",
    "TopKOption",
    "TopPOption",
    "write_answer",
]

_CHOOSING = "Choosing tokens"

LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        "-n",
        metavar="N",
        help="The most tokens of an answer (default: as many as the context holds).",
        show_default=False,
    ),
]
TemperatureOption = Annotated[
    float,
    typer.Option(
        "--temperature",
        help="0 takes the likeliest token; above, tokens are drawn.",
        rich_help_panel=_CHOOSING,
    ),
]
TopKOption = Annotated[
    int,
    typer.Option(
        "--top-k", help="Draw from so many of the best; 0: all.", rich_help_panel=_CHOOSING
    ),
]
TopPOption = Annotated[
    float,
    typer.Option(
        "--top-p",
        help="Draw from the best that together have this probability.",
        rich_help_panel=_CHOOSING,
    ),
]
MinPOption = Annotated[
    float,
    typer.Option(
        "--min-p",
        help="Draw from those at least this part as likely as the best.",
        rich_help_panel=_CHOOSING,
    ),
]
RepetitionPenaltyOption = Annotated[
    float,
    typer.Option(
        "--repetition-penalty",
        help="Divide the scores of tokens that were there by this.",
        rich_help_panel=_CHOOSING,
    ),
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", help="The same seed draws the same text.", rich_help_panel=_CHOOSING),
]


def write_answer(session: Session, answer: "Answer") -> None:
    """Write an answer as it comes; with `--json` it is only read to its end."""
    if session.json:
        answer.whole()
        return
    for piece in answer:
        session.write(_shown(piece))
    session.write("\n")


def _shown(text: str) -> str:
    """Text that a model wrote must not steer a terminal; tabs are only text."""
    return "\t".join(_parts(text))


def _parts(text: str) -> Iterator[str]:
    yield from (printable(part) for part in text.split("\t"))
