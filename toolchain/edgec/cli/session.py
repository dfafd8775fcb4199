"""One run of the command line: how much to say, and to whom."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgec.cli.layout import printable

__all__ = ["Session", "told"]


@dataclass(kw_only=True)
class Session:
    """What the flags that every verb takes ask for. Changed once, when they are known.

    Attributes:
        verb: the verb that runs; empty before one is known.
        json: print one JSON object on stdout.
        verbosity: -1 errors only, 0 plain, 1 and more for details; all of it on stderr.
        notes: what `note` said, for the JSON object.
        write: prints on stdout at once, while a verb works; all else that does goes to stderr.
    """

    verb: str = ""
    json: bool = False
    verbosity: int = 0
    notes: list[str] = field(default_factory=list)
    write: Callable[[str], object] = field(default=lambda text: sys.stdout.write(text))

    def note(self, text: str) -> None:
        """Tell the user something they should know (a conversion, a guess), unless quiet."""
        self.notes.append(text)
        if self.verbosity >= 0:
            self._say(f"note: {text}")

    def detail(self, text: str) -> None:
        """Tell the user something only with `-v`."""
        if self.verbosity >= 1:
            self._say(text)

    def say(self, text: str) -> None:
        """A line on stderr for people, unless quiet or answering in JSON."""
        if self.verbosity >= 0 and not self.json:
            self._say(text)

    def _say(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)


class _Notes(logging.Handler):
    """What a log warns of, as notes."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.WARNING)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        self._session.note(record.getMessage())


@contextmanager
def told(session: Session, *logs: str) -> Iterator[None]:
    """Let the session alone tell what these logs warn of, as long as this lasts.

    Libraries (absl, transformers) give the root log a handler, which would print it once more.
    """
    handler = _Notes(session)
    found = [logging.getLogger(name) for name in logs]
    passed_on = [log.propagate for log in found]
    for log in found:
        log.addHandler(handler)
        log.propagate = False
    try:
        yield
    finally:
        for log, before in zip(found, passed_on, strict=True):
            log.removeHandler(handler)
            log.propagate = before
