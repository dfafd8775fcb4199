"""Native objects that Python gives back, and Python's own that edgert holds."""

import ctypes
import itertools
import os
from typing import Any

from edgec.runtime.edgert.native import RELEASE

__all__ = ["LET_GO", "Handle", "hold", "let_go"]


class Handle:
    """A native object; `close()` gives it back early, twice is fine."""

    _release = ""
    pointer: int | None = None

    def __init__(self, library: Any, pointer: int | None) -> None:
        self.library = library
        self.pointer = pointer
        # Kept here, since Python at its end clears what modules know before the last objects go.
        self._current = os.getpid
        self._process = self._current()

    def close(self) -> None:
        """Give the object back; whatever was made with it keeps what it needs."""
        pointer, self.pointer = self.pointer, None
        # A forked child has none of the threads, and would wait for their end for ever.
        if pointer and self._process == self._current():
            getattr(self.library, self._release)(pointer)

    def __del__(self) -> None:
        self.close()


# What edgert still reads or writes, by a number of its own.
_held: dict[int, Any] = {}
_tokens = itertools.count(1)


def hold(thing: object) -> int:
    """A number by which edgert knows it, and holds it until `let_go`."""
    token = next(_tokens)
    _held[token] = thing
    return token


def let_go(token: int | None) -> Any:
    """What was held by this number; nothing holds it any more."""
    return _held.pop(token or 0, None)


def _release_held(token: int | None) -> None:
    let_go(token)


_LET_GO_CALLBACK = RELEASE(_release_held)
LET_GO = ctypes.cast(_LET_GO_CALLBACK, ctypes.c_void_p)
