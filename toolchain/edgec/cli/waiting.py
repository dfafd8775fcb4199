"""What takes long, said while it lasts: a line on stderr every ten seconds, and none before."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgec.cli.amounts import seconds_text
from edgec.cli.session import Session

__all__ = ["At", "waiting"]

_EVERY = 10.0
At = Callable[[str], None]
"""Takes what is at work from now on (`calling net.vmfb`)."""


@contextmanager
def waiting(session: Session, text: str, *, every: float = _EVERY) -> Iterator[At]:
    """Say that something still lasts, what it is, and for how long it has.

    Args:
        session: who is told; nobody where it is quiet or answers in JSON.
        text: what is at work first.
        every: seconds between two lines.
    """
    doing = [text]
    done = threading.Event()
    start = time.monotonic()

    def tell() -> None:
        while not done.wait(every):
            session.say(f"{doing[0]} ({seconds_text(time.monotonic() - start)})")

    def at(now: str) -> None:
        doing[0] = now

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield at
    finally:
        done.set()
        teller.join()
