"""One engine with one model in a process of its own: `child ENGINE MODEL THREADS FILE`.

Eager writes its answers to FILE; the others are compared with them.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.accuracy import worst_error
from benchmarks.peers.child import burst, reason, say

__all__ = ["ENGINES"]

ENGINES = ("eager", "inductor", "edgec")

_NOTHING = 1e-7


def main() -> int:
    """Say `{"ok": {"first": seconds, "error": …}}` or `{"refused": …}`; then serve bursts."""
    _, engine, name, count, file = sys.argv
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threads = int(count)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        import torch

        from benchmarks.torch_compile.models import call

        torch.set_num_threads(threads)
        run = call(name, _compiler(engine, threads))
        begin = time.perf_counter()
        found = [value.numpy() for value in run()]
        first = time.perf_counter() - begin
        if engine == "eager":
            np.savez(file, *found)
        with np.load(Path(file)) as kept:
            error = worst_error(*_told(found, list(kept.values())))
        say(answers, {"ok": {"first": first, "error": error}})
        for line in sys.stdin:
            say(answers, {"ms": burst(run, float(json.loads(line)["seconds"]))})
    except Exception as error:  # noqa: BLE001 - every failure is a row with its reason
        say(answers, {"refused": reason(error)})
    return 0


def _told(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Answers without what is nothing but rounding: keys' biases have no gradient.

    Such a one counts as a part of the largest of all.
    """
    largest = max(float(np.abs(value).max()) for value in wanted)
    small = [float(np.abs(value).max()) < _NOTHING * largest for value in wanted]
    scale = [
        np.full(value.shape, largest) if tiny else 0
        for value, tiny in zip(wanted, small, strict=True)
    ]
    return (
        [value + more for value, more in zip(found, scale, strict=True)],
        [value + more for value, more in zip(wanted, scale, strict=True)],
    )


def _compiler(engine: str, threads: int) -> Any:
    import torch

    if engine == "eager":
        return lambda model: model
    if engine == "inductor":
        return lambda model: torch.compile(model, backend="inductor")
    from edgec.plugins.torch_compile import backend

    options = {"device": f"cpu?threads={threads}"}
    return lambda model: torch.compile(model, backend=backend, options=options)


if __name__ == "__main__":
    sys.exit(main())
