"""Measure a language model's module: load time, peak memory, prefill and decode on some threads.

With `--program`, the memory that an app in C takes for an answer, beside what it has to hold."""

import argparse
import resource
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np

from edgec.runtime.text import TextModel

PREFILL = 256
DECODE = 32
QUESTION = "What is the capital of France?"


def measure(path: Path, threads: int, prompt: int, count: int) -> None:
    """One line: seconds to load and to the first token, tokens a second, megabytes at the peak."""
    began = time.perf_counter()
    with TextModel(path, device=f"cpu?threads={threads}") as model:
        loaded = time.perf_counter() - began
        tokens = [int(n) for n in np.random.default_rng(0).integers(0, 1000, prompt)]
        model.next_token(tokens[: model.facts.prefill[-1]])  # pages of the weights come in
        began = time.perf_counter()
        model.next_token([token + 1 for token in tokens])
        prefill = time.perf_counter() - began
        each = []
        token = tokens[0]
        text = [token + 1 for token in tokens]
        for _ in range(count):
            text.append(token)
            began = time.perf_counter()
            token = model.next_token(text)
            each.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    middle = statistics.median(each)
    print(
        f"{threads} threads: loaded in {loaded:.2f} s; prefill of {prompt}: "
        f"{prompt / prefill:.1f} tokens/s; decode of {count}: {1 / middle:.1f} tokens/s "
        f"({1000 * middle:.1f} ms a token); peak {peak:.0f} MB"
    )


def measure_program(program: Path, path: Path, threads: int) -> None:
    """One line: megabytes of `samples/chat/c` at its peak, of the weights, and of what it keeps."""
    weights = path.with_suffix(".safetensors")
    words = [program, path, f"--weights={weights}", f"--threads={threads}", QUESTION]
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    with TextModel(path) as model:
        kept = sum(np.asarray(value).nbytes for value in model.module.state().values()) / 1e6
    size = weights.stat().st_size / 1e6
    print(
        f"{program.name}, {threads} threads: peak {peak:.0f} MB; weights {size:.0f} MB, "
        f"keys, values and scores {kept:.0f} MB, all else {peak - size - kept:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=PREFILL)
    parser.add_argument("--count", type=int, default=DECODE)
    parser.add_argument("--program", type=Path, help="measure an app as samples/chat/c builds it")
    given = parser.parse_args()
    if given.program is not None:
        measure_program(given.program, given.module, given.threads)
        return
    measure(given.module, given.threads, given.prompt, given.count)


if __name__ == "__main__":
    main()
