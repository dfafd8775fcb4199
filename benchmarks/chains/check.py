"""A chain compiled for a target and called, beside XLA's answers on this machine's CPU."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from benchmarks.chains.chain import Chain
from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.errors import EdgecError

__all__ = ["CALLS", "FAR", "Verdict", "answers", "checked"]

CALLS = 3
"""Calls of each module: threads that are in each other's way are not so every time."""
FAR = 1e-3
"""What an answer may be off by, as a part of the largest one or of 1: a few sums in 32 bits."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a chain.

    Attributes:
        seed: the chain's.
        label: its operations.
        outcome: `right`, `wrong`, or what edgec said in place of a module or an answer.
        error: the largest difference, as a part of the largest answer or of 1.
        seconds: what it took.
    """

    seed: int
    label: str
    outcome: str
    error: float
    seconds: float


def answers(chain: Chain) -> list[np.ndarray]:
    """What XLA says."""
    return [np.asarray(value) for value in jax.tree.leaves(jax.jit(chain)(*chain.arguments))]


def checked(chain: Chain, target: str, device: str, folder: Path) -> Verdict:
    """Compile a chain, call it a few times and compare."""
    start = time.perf_counter()
    outcome, error = "right", 0.0
    try:
        options = toolchain.CompileOptions(check=False, output=folder / f"{chain.seed}.vmfb")
        program = export(jax.jit(chain), chain.arguments)
        module = toolchain.compile(program, target, options)
        expected = answers(chain)
        with runtime.load(module, device=device) as loaded:
            error = max(_error(chain, loaded, expected) for _ in range(CALLS))
        if not error <= FAR:
            outcome = "wrong"
    except EdgecError as refusal:
        outcome = refusal.what
    seconds = time.perf_counter() - start
    return Verdict(
        seed=chain.seed, label=chain.label, outcome=outcome, error=error, seconds=seconds
    )


def _error(chain: Chain, loaded: runtime.LoadedModule, expected: Sequence[np.ndarray]) -> float:
    found = jax.tree.leaves(loaded.main(*chain.arguments))
    pairs = zip(found, expected, strict=True)
    return max(_apart(np.asarray(got), wanted) for got, wanted in pairs)


def _apart(got: np.ndarray, expected: np.ndarray) -> float:
    if got.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    size = max(float(np.abs(expected).max()), 1.0)
    difference = np.abs(got.astype(np.float64) - expected)
    return float(np.where(np.isnan(expected) & np.isnan(got), 0.0, difference).max()) / size
