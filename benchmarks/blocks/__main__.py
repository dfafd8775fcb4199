"""How fast products read weights of 8 and 4 bits, beside what the machine's memory gives.

python -m benchmarks.blocks --make                    # compile only
python -m benchmarks.blocks                           # a token of SmolLM2-135M: all of its products
python -m benchmarks.blocks --model llama-3.2-1b --layers 4
python -m benchmarks.blocks --rows 256                # a prompt: flops count, not bytes
"""

import argparse
import sys
import time

import numpy as np

from benchmarks.blocks.memory import bandwidth
from benchmarks.blocks.products import MODELS, Built, built

SCHEMES = ("int8", "int8-g32", "int4-g32", "int4-g32-least", "f32")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="smollm2-135m")
    parser.add_argument("--layers", type=int, help="how many of its layers (default: all)")
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls, for each figure")
    parser.add_argument("--make", action="store_true", help="compile, and measure nothing")
    chosen = parser.parse_args()
    made = [
        built(chosen.model, scheme, chosen.layers, chosen.rows)
        for scheme in chosen.scheme or ("int8", "int4-g32")
    ]
    if chosen.make:
        return 0
    print("| weights | threads | ms | GB/s of weights | of memory's | GFLOP/s |")
    print("|---|---|---|---|---|---|")
    for threads in chosen.threads or (1, 2):
        memory = bandwidth(threads)
        for each in made:
            print(_row(each, threads, _fastest(each, threads, chosen.seconds), memory), flush=True)
        print(f"| memory | {threads} | | {memory / 1e9:.1f} | 100 % | |", flush=True)
    return 0


def _row(each: Built, threads: int, seconds: float, memory: float) -> str:
    rate = each.bytes / seconds
    return (
        f"| {each.scheme} | {threads} | {seconds * 1e3:.2f} | {rate / 1e9:.1f} | "
        f"{rate / memory:.0%} | {each.flops / seconds / 1e9:.0f} |"
    )


def _fastest(each: Built, threads: int, seconds: float) -> float:
    """Seconds of the fastest call."""
    from edgec.runtime import load

    with load(each.module, device=f"cpu?threads={threads}") as loaded:
        values = [np.ones(spec.shape, np.float32) for spec in loaded.signatures["main"].inputs]
        function, best = loaded["main"], float("inf")
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            function.call_flat(values)
            best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    sys.exit(main())
