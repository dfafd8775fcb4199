"""One engine with one model in a process of its own: `child build|serve ENGINE MODEL FOLDER [N]`.

What it says goes to the original standard output as JSON, a line a message; what libraries print
goes to standard error.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

__all__ = ["burst", "reason", "say"]

_WARM_CALLS = 3
_MOST_CALLS = 100


def main() -> int:
    """Answer with one `{"ok": …}` or `{"refused": …}`, then serve bursts until the input ends."""
    verb, engine_name, model_name, folder, *rest = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if verb == "serve":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(rest[0])])
    try:
        if verb == "build":
            say(answers, {"ok": _build(engine_name, model_name, Path(folder))})
        else:
            _serve(answers, engine_name, model_name, Path(folder), int(rest[0]))
    except Exception as error:  # noqa: BLE001 - every failure is a row with its reason
        say(answers, {"refused": reason(error)})
    return 0


def _build(engine_name: str, model_name: str, folder: Path) -> dict[str, float]:
    # Imported here, after the affinity is set: libraries count the cores when they start.
    from benchmarks.peers.engines.catalogue import ENGINES
    from benchmarks.peers.models.catalogue import MODELS

    if engine_name == "reference":
        from benchmarks.peers.engines.source_files import reference

        reference(MODELS[model_name], folder)
        return {}
    return ENGINES[engine_name]().build(MODELS[model_name], folder)


def _serve(answers: TextIO, engine_name: str, model_name: str, folder: Path, threads: int) -> None:
    from benchmarks.peers.accuracy import worst_error
    from benchmarks.peers.company import Company
    from benchmarks.peers.engines.catalogue import ENGINES
    from benchmarks.peers.engines.source_files import reference
    from benchmarks.peers.models.catalogue import MODELS

    model, engine = MODELS[model_name], ENGINES[engine_name]()
    begin = time.perf_counter()
    engine.prepare(model, folder, threads)
    loaded = time.perf_counter()
    engine.run()
    first = time.perf_counter()
    error = worst_error(list(engine.outputs()), reference(model, folder))
    say(answers, {"ok": {"load": loaded - begin, "first": first - loaded, "error": error}})
    for line in sys.stdin:
        company = Company()
        times = burst(engine.run, float(json.loads(line)["seconds"]))
        say(answers, {"ms": times, "others": company.cores()})


def burst(run: Any, seconds: float) -> list[float]:
    """Milliseconds of each call, for so long; caches are warm, at least three calls."""
    end = time.perf_counter() + seconds / 4
    for _ in range(_WARM_CALLS):
        run()
        if time.perf_counter() > end:
            break
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < _MOST_CALLS and (len(times) < 3 or time.perf_counter() < end):
        begin = time.perf_counter_ns()
        run()
        times.append(round((time.perf_counter_ns() - begin) / 1e6, 4))
    return times


def reason(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    kind = type(error).__name__
    if kind == "Refused" and lines:
        return lines[0][:300]
    return (f"{kind}: {lines[0].strip()}" if lines else kind)[:300]


def say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
