"""What both children say of a network in f32 and quantised: how far apart, and how fast.

Imports nothing of this repository, since another engine's Python runs it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["compared", "read"]

_CALLS = 60
_Inputs = list[np.ndarray]


def read(path: str) -> list[_Inputs]:
    """The calls of an archive (`CALL/INPUT`), each a list of inputs."""
    found: dict[int, dict[int, np.ndarray]] = {}
    with np.load(path) as archive:
        for name in archive.files:
            call, index = map(int, name.split("/"))
            found.setdefault(call, {})[index] = archive[name]
    return [[each[index] for index in sorted(each)] for _, each in sorted(found.items())]


def compared(
    opened: Callable[[int], Sequence[Any]],
    answer: Callable[[Any, _Inputs], np.ndarray],
    given: Sequence[_Inputs],
    answers: str,
) -> dict[str, Any]:
    """The error of the second's answers, and the least seconds of a call of both, by threads.

    Args:
        opened: both networks, for so many threads.
        answer: what one of them answers.
        given: the calls; the first is timed.
        answers: where the second's answers go.
    """
    found = [[answer(each, inputs) for inputs in given] for each in opened(1)]
    np.savez(answers, **{str(number): each for number, each in enumerate(found[1])})
    error = max(
        float(np.sqrt(np.mean((one - other) ** 2)) / one.std())
        for one, other in zip(*found, strict=True)
    )
    times = {}
    for threads in (1, 2):
        pair, best = opened(threads), [float("inf")] * 2
        for _ in range(_CALLS):
            for number, each in enumerate(pair):
                began = time.perf_counter()
                answer(each, given[0])
                best[number] = min(best[number], time.perf_counter() - began)
        times[threads] = best
    return {"error": error, "seconds": times}
