"""Calls that run in the background."""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

from edgec.runtime.edgert.handle import Handle, hold, let_go
from edgec.runtime.edgert.native import DONE, Error, NativeValue
from edgec.runtime.edgert.tensor import EdgertTensor, Result, taken, values
from edgec.runtime.errors import DeviceError, EdgecError

__all__ = ["EdgertCall"]


class EdgertCall(Handle):
    """A call that runs in the background; without threads it ran when it was begun."""

    _release = "call_release"

    def __init__(
        self,
        library: Any,
        session: int | None,
        function: int,
        results: int,
        arguments: Sequence[EdgertTensor],
        done: Callable[["EdgertCall"], None] | None,
    ) -> None:
        """Begin it; use `EdgertSession.begin`."""
        super().__init__(library, None)
        self._slots = (NativeValue * results)()
        self._results: list[Result] | None = None
        self._done = done
        self._lock = threading.RLock()
        out, error = ctypes.c_void_p(), Error()
        # Held until it has ended, since edgert writes its results here.
        token = hold(self)
        with self._lock:
            status = self.library.call_begin(
                *(session, function, values(arguments), len(arguments), self._slots, results),
                *(_ENDED, token, ctypes.byref(out), ctypes.byref(error)),
            )
            self.pointer = out.value
        if status:
            let_go(token)
        self.library.check(status, error, DeviceError)

    @property
    def is_done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._results is not None or bool(self.library.call_is_done(self.pointer))

    def cancel(self) -> bool:
        """Keep the call from running; False where it has begun, and then it runs to its end."""
        return self._results is None and bool(self.library.call_cancel(self.pointer))

    def wait(self, timeout: float | None = None) -> list[Result]:
        """The results, when the call has ended and its `done` has returned.

        Args:
            timeout: seconds to wait at most.

        Raises:
            DeviceError: the call failed, was cancelled, or has not ended by then.
        """
        if self._results is None:
            error = Error()
            if timeout is None:
                status = self.library.call_wait(self.pointer, ctypes.byref(error))
            else:
                status = self.library.call_wait_for(
                    self.pointer, max(0, round(timeout * 1000)), ctypes.byref(error)
                )
            self.library.check(status, error, DeviceError)
            with self._lock:
                if self._results is None:
                    self._results = [taken(self.library, slot) for slot in self._slots]
        return self._results

    def close(self) -> None:
        """Give the call back when it has ended; from its `done` at once."""
        if self.pointer and self._results is None:
            with contextlib.suppress(EdgecError):
                self.wait()
        super().close()

    def _tell(self) -> None:
        with self._lock:  # until `begin` has noted its handle
            done, self._done = self._done, None
        if done is not None:
            done(self)


def _ended(token: int | None, _: int | None) -> None:
    let_go(token)._tell()


_ENDED = DONE(_ended)
