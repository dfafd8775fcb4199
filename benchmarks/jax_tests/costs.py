"""What JAX pays on edgec's platform and on XLA's CPU: for a call, and for a program that is new.

JAX_PLATFORMS=edgec,cpu python -m benchmarks.jax_tests.costs

The least of many calls, and the median of eight programs, each an addition and a product of four
numbers with constants of its own, with an empty cache.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable

CALLS, ROUNDS, PROGRAMS = 100, 100, 8


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as cache:
        from edgec.runtime.pjrt_library import PJRT_VARIABLE, find_plugin

        os.environ[PJRT_VARIABLE] = str(find_plugin())
        os.environ["EDGEC_CACHE_DIR"] = cache
        import edgec.plugins.jax

        edgec.plugins.jax.initialize()
        import jax
        import numpy as np

        for platform in ("edgec", "cpu"):
            x = jax.device_put(np.ones(4, np.float32), jax.devices(platform)[0])
            times = [_seconds(jax.jit(_program(number)), x) for number in range(PROGRAMS + 1)]
            call = jax.jit(_program(0))
            call(x)
            best = min(_calls(call, x) for _ in range(ROUNDS))
            print(
                f"{platform}: a call {best * 1e6:.1f} us; a new program "
                f"{statistics.median(times[1:]):.2f} s, the first {times[0]:.2f} s"
            )


def _program(number: int) -> Callable[[object], object]:
    return lambda x: x * (number + 2) + number  # type: ignore[operator]


def _seconds(call: Callable[[object], object], x: object) -> float:
    start = time.perf_counter()
    call(x)
    return time.perf_counter() - start


def _calls(call: Callable[[object], object], x: object) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        y = call(x)
    y.block_until_ready()  # type: ignore[attr-defined]
    return (time.perf_counter() - start) / CALLS


if __name__ == "__main__":
    main()
