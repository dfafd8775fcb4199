"""One engine's times, in its own process: `python child.py ENGINE MODEL THREADS PROMPT COUNT …`.

Prints JSON: seconds to load, to read the prompt (the best of some), to write a token (the median),
and the most memory that the process had.
"""

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import itertools

from engines import ENGINES, pin


def main() -> None:
    name, path, *numbers = sys.argv[1:]
    threads, prompt, count, rounds, context = map(int, numbers)
    pin(threads)
    tokens = [(7919 * i + 13) % 1000 for i in range(prompt)]
    began = time.perf_counter()
    model = ENGINES[name](Path(path), threads, context)
    loaded = time.perf_counter() - began
    reads: list[float] = []
    writes: list[float] = []
    if hasattr(model, "times"):
        loading, read, write = model.times(prompt, count)
        loaded, reads, writes, rounds = loaded + loading, [read], [write], 0
    for _ in range(rounds):
        if hasattr(model, "generate"):
            stamps: list[float] = []
            began = time.perf_counter()
            model.generate(tokens, count, stamps)
            reads.append(stamps[0] - began)
            writes += [b - a for a, b in itertools.pairwise(stamps)]
            continue
        began = time.perf_counter()
        token = model.read(tokens)
        reads.append(time.perf_counter() - began)
        for _ in range(count):
            began = time.perf_counter()
            token = model.write(token)
            writes.append(time.perf_counter() - began)
    found = {
        "load": loaded,
        "prompt": min(reads),
        "token": statistics.median(writes),
        "peak": _peak(),
    }
    print(json.dumps(found))


def _peak() -> int:
    """The most bytes of memory since this program began: `getrusage` knows its parent's, too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
