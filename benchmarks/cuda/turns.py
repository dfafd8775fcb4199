"""Calls timed in turns; needs nothing, since it runs on the machine with the GPU, too."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CALLS", "seconds"]

CALLS = 30


def seconds(
    calls: Mapping[str, Callable[[], Any]], rounds: int, count: int = CALLS
) -> dict[str, float]:
    """The median of so many calls of each, taken in turn; the least of all rounds."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times = []
            for _ in range(count):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            found[name].append(statistics.median(times))
    return {name: min(times) for name, times in found.items()}
