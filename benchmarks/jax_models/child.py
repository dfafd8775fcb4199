"""One platform with one model in a process of its own: `child PLATFORM MODEL THREADS FILE`.

XLA's CPU writes its answers to FILE; edgec's are compared with them.
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

__all__ = ["PLATFORMS"]

PLATFORMS = ("cpu", "edgec")


def main() -> int:
    """Say `{"ok": {"first": seconds, "error": …}}` or `{"refused": …}`; then serve bursts."""
    _, platform, name, count, file = sys.argv
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(count)])
    os.environ["JAX_PLATFORMS"] = platform if platform == "cpu" else f"{platform},cpu"
    try:
        from benchmarks.jax_models.models import call

        if platform == "edgec":
            import edgec.plugins.jax

            edgec.plugins.jax.initialize()
        run = call(name)

        def whole() -> None:
            for each in run():
                each.block_until_ready()

        begin = time.perf_counter()
        _check(run(), platform)
        found = [np.asarray(each) for each in run()]
        first = time.perf_counter() - begin
        if platform == PLATFORMS[0]:
            np.savez(file, *found)
        with np.load(Path(file)) as kept:
            error = worst_error(found, list(kept.values()))
        say(answers, {"ok": {"first": first, "error": error}})
        for line in sys.stdin:
            say(answers, {"ms": burst(whole, float(json.loads(line)["seconds"]))})
    except Exception as error:  # noqa: BLE001 - every failure is a row with its reason
        say(answers, {"refused": reason(error)})
    return 0


def _check(results: Sequence[Any], platform: str) -> None:
    """See that the platform gave them: XLA's CPU is beside it, for weights."""
    ran = {device.platform for each in results for device in each.devices()}
    if ran != {platform}:
        raise RuntimeError(f"{', '.join(sorted(ran))} computed, not {platform}")


if __name__ == "__main__":
    sys.exit(main())
