"""SIGTERM and SIGHUP to an exception, so that what is at work ends as it does by Ctrl-C.

Without this the process would go at once, and leave its temporary folders and a compiler behind.
"""

import signal
from types import FrameType
from typing import NoReturn

__all__ = ["EXITS", "Ended", "end_by_exception"]

_NAMES = ("SIGTERM", "SIGHUP")

EXITS = {name: 128 + int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)}
"""A signal to the exit code of a process that it ended, as shells count."""


class Ended(BaseException):
    """The process was asked to end; nothing but the command line may catch it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def end_by_exception() -> None:
    """From here on these signals raise `Ended`, once; one that is ignored (`nohup`) stays so."""
    for name in EXITS:
        number = getattr(signal, name)
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def _raise(number: int, _: FrameType | None) -> NoReturn:
    for name in EXITS:  # what cleans up now is not to be cut short
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise Ended(signal.Signals(number).name)
