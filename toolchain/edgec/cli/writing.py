"""Options of the verbs that write text, and a text to a terminal as it is written."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.layout import printable
from edgec.cli.session import Session
from edgec.runtime.errors import FileError, UsageError
from edgec.runtime.files import unreadable

if TYPE_CHECKING:
    import numpy as np

    from edgec.runtime.text import Answer, Constraint, WhenFull

__all__ = [
    "GrammarOption",
    "JsonSchemaOption",
    "LimitOption",
    "MinPOption",
    "PatternOption",
    "RepetitionPenaltyOption",
    "SeedOption",
    "SpeculateOption",
    "TemperatureOption",
    "TopKOption",
    "TopPOption",
    "WhenFullOption",
    "constraint_of",
    "source_of",
    "when_full_of",
    "write_answer",
]

_CHOOSING = "Choosing tokens"
_HOLDING = "What an answer has to be"

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
JsonSchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--json-schema",
        metavar="FILE",
        help="JSON by this schema.",
        rich_help_panel=_HOLDING,
        show_default=False,
    ),
]
GrammarOption = Annotated[
    Path | None,
    typer.Option(
        "--grammar",
        metavar="FILE",
        help="A text of this grammar, as Lark writes them.",
        rich_help_panel=_HOLDING,
        show_default=False,
    ),
]
PatternOption = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="REGEX",
        help="A text that this regular expression matches as a whole.",
        rich_help_panel=_HOLDING,
        show_default=False,
    ),
]


def constraint_of(
    json_schema: Path | None, grammar: Path | None, pattern: str | None
) -> "Constraint | None":
    """What an answer has to be, by the three options.

    Raises:
        UsageError: there are two of them.
        FileError: one cannot be read.
        InputError: the schema is no JSON.
    """
    from edgec.runtime.text import Constraint

    given = {"--json-schema": json_schema, "--grammar": grammar, "--pattern": pattern}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise UsageError(f"{names[0]} and {names[1]} exclude each other", hint="give one of them")
    if json_schema is not None:
        return Constraint.json_schema(_read(json_schema))
    if grammar is not None:
        return Constraint.grammar(_read(grammar))
    return None if pattern is None else Constraint.pattern(pattern)


def source_of(prompt: str, source: Sequence[int]) -> "str | np.ndarray":
    """What a model is given: the prompt, or the array in `@FILE.npy` for one that reads features.

    Raises:
        FileError: that cannot be read.
        UsageError: the model reads features, and this is no file.
    """
    import numpy as np

    if len(source) < 2:
        return prompt
    if not prompt.startswith("@"):
        raise UsageError(
            "the model reads features of sound, and the prompt is a text",
            hint="give @FILE.npy with what its feature extractor makes: f32[features, frames]",
        )
    try:
        found = np.load(prompt[1:], allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileError(
            f"cannot read {prompt[1:]}: {error}", hint="write it with numpy.save"
        ) from error
    return np.asarray(found, np.float32)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise FileError(
            f"cannot read {path}: it is no UTF-8 at its byte {error.start}",
            hint="give a file of text in UTF-8",
        ) from None


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
