"""Options of the verbs that write text, and a text to a terminal as it is written."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.layout import printable
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.runtime.text import Answer, WhenFull

__all__ = [
    "LimitOption",
    "MinPOption",
    "RepetitionPenaltyOption",
    "SeedOption",
    "SpeculateOption",
    "TemperatureOption",
    "TopKOption",
    "TopPOption",
    "WhenFullOption",
    "when_full_of",
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


WhenFullOption = Annotated[
    str,
    typer.Option(
        "--when-full",
        metavar="stop|slide",
        help="What becomes of a text that outgrows the context: the answer ends, or the beginning "
        "and the last part of the text are read anew and it goes on.",
    ),
]
SpeculateOption = Annotated[
    bool,
    typer.Option(
        "--speculate/--no-speculate",
        help="Read guesses along with tokens, where the module was exported with --speculate.",
    ),
]


def when_full_of(word: str) -> "WhenFull":
    """What `--when-full` says.

    Raises:
        UsageError: it says something else.
    """
    from edgec.runtime.text import WhenFull

    try:
        return WhenFull(word)
    except ValueError:
        raise UsageError(
            f"--when-full={word} is unknown", hint="say --when-full=stop or --when-full=slide"
        ) from None


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
