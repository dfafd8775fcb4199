"""Progress of a compile on stderr: one live line on a terminal, a line a step in a pipe."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from edgec.cli.amounts import seconds_text
from edgec.cli.layout import wants_colour
from edgec.cli.session import Session

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from edgec.toolchain import Phase, Step

__all__ = ["Progress", "describe", "showing"]

_LINE_EVERY = 10.0


class Progress(Protocol):
    """Takes what the toolchain tells."""

    def __call__(self, phase: "Phase") -> None:
        """A phase, again and again while it lasts."""


@contextmanager
def showing(session: Session) -> Iterator["Progress | None"]:
    """What to give to `CompileOptions.progress`; None if nobody looks."""
    if session.json or session.verbosity < 0:
        yield None
        return
    if not sys.stderr.isatty():
        yield _Lines(session)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.elapsed:.1f} s"))
    console = Console(file=sys.stderr, no_color=not wants_colour(sys.stderr))
    with Bar(*columns, console=console, transient=True) as bar:
        yield _Live(bar)


def describe(step: "Step", target: str) -> str:
    """What a step does, in the user's words."""
    from edgec.toolchain import Step

    texts = {
        Step.READ: "reading the program",
        Step.PASSES: "preparing it",
        Step.COMPILE: "compiling",
        Step.CHECK: "running the golden answers",
        Step.WRITE: "writing the module",
    }
    return f"{target}: {texts.get(step, step.value)}"


class _Lines:
    """A line when a step begins, and one more every ten seconds while it lasts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: tuple[object, str] | None = None
        self._said = 0.0

    def __call__(self, phase: "Phase") -> None:
        now = time.monotonic()
        if (phase.step, phase.target) != self._last:
            self._last, self._said = (phase.step, phase.target), now
            self._session.say(describe(phase.step, phase.target))
        elif now - self._said >= _LINE_EVERY:
            self._said = now
            text = describe(phase.step, phase.target)
            self._session.say(f"{text} ({seconds_text(phase.seconds)})")


class _Live:
    """A line that turns and counts the seconds of the step at work."""

    def __init__(self, bar: "Bar") -> None:
        self._bar = bar
        self._task: TaskID | None = None
        self._text = ""

    def __call__(self, phase: "Phase") -> None:
        text = describe(phase.step, phase.target)
        if text == self._text:
            return
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._text = text
        self._task = self._bar.add_task(text, total=None)
