"""What this machine's memory gives to threads that only read it."""

import ctypes
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

__all__ = ["bandwidth"]

_SOURCE = """
#include <stddef.h>
#include <stdint.h>
uint64_t total(const uint64_t *at, size_t count) {
  uint64_t sum[32] = {0};
  for (size_t i = 0; i + 32 <= count; i += 32)
    for (size_t j = 0; j < 32; ++j) sum[j] += at[i + j];
  uint64_t whole = 0;
  for (size_t j = 0; j < 32; ++j) whole += sum[j];
  return whole;
}
"""
_SIZE = 256 << 20
"""Bytes that a thread reads at a time: more than any cache holds."""
_ROUNDS = 4


def bandwidth(threads: int) -> float:
    """Bytes a second that so many threads read together, each memory of its own; the best round."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "total.c"), Path(folder, "total.so")
        source.write_text(_SOURCE)
        subprocess.run(
            ["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True
        )
        total = ctypes.CDLL(str(library)).total
    total.restype, total.argtypes = ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_size_t)
    arrays = [np.ones(_SIZE // 8, np.uint64) for _ in range(threads)]
    best = float("inf")
    for _ in range(_ROUNDS):
        started = threading.Barrier(threads + 1)

        def read(array: np.ndarray, started: threading.Barrier = started) -> None:
            started.wait()
            total(array.ctypes.data, array.size)

        workers = [threading.Thread(target=read, args=(array,)) for array in arrays]
        for worker in workers:
            worker.start()
        started.wait()
        start = time.perf_counter()
        for worker in workers:
            worker.join()
        best = min(best, time.perf_counter() - start)
    return threads * _SIZE / best
