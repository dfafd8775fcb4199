"""Work of several devices that wait for each other while they do it, begun at once and waited for.

A device whose host fails before it has said its part leaves the others waiting on the device, where
nobody can call them back. So the caller does not wait for these: it gets the failure, and what is
left of the devices goes with the process.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from edgec.runtime.errors import DeviceError

__all__ = ["Together"]

_GRACE = 10.0
"""Seconds that the others have to end once one has failed."""


class Together:
    """A thread for each of some devices.

    Attributes:
        stranded: why no more work is taken: devices wait for one that failed; empty before.
    """

    def __init__(self, count: int, *, grace: float = _GRACE) -> None:
        self.stranded = ""
        self._grace = grace
        self._changed = threading.Condition()
        self._todo: list[queue.SimpleQueue[Callable[[], Any] | None]] = []
        self._made: dict[int, Any] = {}
        self._failed: dict[int, BaseException] = {}
        for number in range(count):
            todo: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
            self._todo.append(todo)
            # Daemons: one that waits on its device for ever does not keep the process.
            name = f"device {number}"
            threading.Thread(
                target=self._serve, args=(number, todo), name=name, daemon=True
            ).start()

    def __call__(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        """Do a work of each device, all at once; what each gives.

        Raises:
            DeviceError: devices wait for one that failed, now or at an earlier call.
            What a work raises, where all others ended.
        """
        if self.stranded:
            raise DeviceError(self.stranded, hint="end this process, and begin anew")
        self._made.clear()
        self._failed.clear()
        for todo, work in zip(self._todo, works, strict=True):
            todo.put(work)
        with self._changed:
            self._changed.wait_for(lambda: self._over(len(works)) or bool(self._failed))
            if not self._failed:
                answers = [self._made[number] for number in range(len(works))]
                self._made.clear()
                return answers
            end = time.monotonic() + self._grace
            self._changed.wait_for(lambda: self._over(len(works)), end - time.monotonic())
            number, error = min(self._failed.items())
            waiting = sorted(set(range(len(works))) - {*self._made, *self._failed})
        if not waiting:
            raise error
        others = ", ".join(map(str, waiting))
        self.stranded = f"device {number} of the mesh failed, and {others} wait for it: {error}"
        raise DeviceError(self.stranded, hint="end this process, and begin anew") from error

    def close(self) -> None:
        """Let the threads end that wait for work."""
        for todo in self._todo:
            todo.put(None)

    def _over(self, count: int) -> bool:
        return len(self._made) + len(self._failed) == count

    def _serve(self, number: int, todo: "queue.SimpleQueue[Callable[[], Any] | None]") -> None:
        while (work := todo.get()) is not None:
            made, error = None, None
            try:
                made = work()
            except BaseException as raised:  # noqa: BLE001 - raised in the thread that calls
                error = raised
            with self._changed:
                if error is None:
                    self._made[number] = made
                else:
                    self._failed[number] = error
                if error is not None or self._over(len(self._todo)):
                    self._changed.notify_all()
            del work, made, error
