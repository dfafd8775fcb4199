"""How much of the machine other programs use while one measures."""

import os
import time
from pathlib import Path

__all__ = ["Company"]

_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq and steal in /proc/stat's first line


class Company:
    """From its making to the question: cores that others kept busy, on average.

    Linux only; elsewhere the answer is None.
    """

    def __init__(self) -> None:
        self._wall, self._own, self._all = time.perf_counter(), _own(), _all()

    def cores(self) -> float | None:
        """Busy cores less those of this process and its children, 0 or more."""
        now = _all()
        wall = time.perf_counter() - self._wall
        if now is None or self._all is None or wall <= 0:
            return None
        return round(max(0.0, (now - self._all) - (_own() - self._own)) / wall, 2)


def _own() -> float:
    """Seconds of CPU that this process, its threads and the children it waited for have had."""
    return sum(os.times()[:4])


def _all() -> float | None:
    """Seconds of CPU that anything has had since the machine started."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    ticks = path.read_text().splitlines()[0].split()[1:]
    return sum(int(ticks[i]) for i in _BUSY if i < len(ticks)) / os.sysconf("SC_CLK_TCK")
