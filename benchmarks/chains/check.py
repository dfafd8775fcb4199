"""A chain compiled for a target and called, beside XLA's answers on this machine's CPU.

Where the device is another machine's, modules, arguments and answers are kept as
`benchmarks.operators.elsewhere` takes them.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.chains.chain import ELEMENTS, Chain
from benchmarks.operators.answers import TOLERANCES
from benchmarks.operators.make import Made, keep_made
from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError

__all__ = ["CALLS", "FAR", "Verdict", "answers", "checked", "kept", "made"]

CALLS = 3
"""Calls of each module: threads that are in each other's way are not so every time."""
FAR = {"f32": 1e-3, "f16": 1e-2, "bf16": 5e-2}
"""What an answer may be off by, as a part of the largest one or of 1: a few sums and roundings."""
_FARTHER = 4.0
"""How many times as far as XLA's own answer in a narrow type, or as the answer in 32 bits moves
when arguments do by that type's rounding, one may be off from that answer, besides."""
_MOVES = 4
_SPREADS = 4.0
"""The largest of numbers that are distributed normally, as a part of their spread."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a chain.

    Attributes:
        seed, element: the chain's.
        label: its operations.
        outcome: `right`, `wrong`, what edgec said in place of a module or an answer, or
            `compiled` for a device elsewhere.
        error: the largest difference, as a part of the largest answer or of 1.
        seconds: what it took.
    """

    seed: int
    element: str = "f32"
    label: str
    outcome: str
    error: float
    seconds: float


def answers(chain: Chain) -> list[np.ndarray]:
    """What XLA says: in 32 bits, of the same numbers, where a chain's type is narrower."""
    given = [argument.astype(np.float32) for argument in chain.arguments]
    return [np.asarray(value) for value in jax.tree.leaves(jax.jit(chain)(*given))]


def _allowed(chain: Chain, expected: Sequence[np.ndarray]) -> float:
    """How far the answers may be off: more where roundings of the type grow on their way."""
    if chain.element == "f32":
        return FAR["f32"]
    narrow = jax.tree.leaves(jax.jit(chain)(*chain.arguments))
    off = [_farthest(narrow, expected)]
    random = np.random.default_rng(chain.seed)
    part = float(jnp.finfo(chain.arguments[0].dtype).eps) / 2
    for _ in range(_MOVES):
        moved = [
            argument.astype(np.float32)
            * (1 + part * random.uniform(-1, 1, argument.shape)).astype(np.float32)
            for argument in chain.arguments
        ]
        off.append(_farthest(jax.tree.leaves(jax.jit(chain)(*moved)), expected))
    return max(FAR[chain.element], _FARTHER * max(off))


def _farthest(found: Sequence[Any], expected: Sequence[np.ndarray]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(_apart(np.asarray(got), wanted) for got, wanted in pairs)


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
        if not error <= _allowed(chain, expected):
            outcome = "wrong"
    except EdgecError as refusal:
        outcome = refusal.what
    return _verdict(chain, outcome, start, error)


def _verdict(chain: Chain, outcome: str, start: float, error: float = 0.0) -> Verdict:
    return Verdict(
        seed=chain.seed,
        element=chain.element,
        label=chain.label,
        outcome=outcome,
        error=error,
        seconds=time.perf_counter() - start,
    )


def made(chain: Chain, target: str, folder: Path) -> Verdict:
    """Compile a chain for a device elsewhere, and keep what it is called with and XLA's answers."""
    start = time.perf_counter()
    files = Made(folder, f"{chain.seed}-{chain.element}")
    outcome = "compiled"
    try:
        options = toolchain.CompileOptions(check=False, output=files.module)
        toolchain.compile(export(jax.jit(chain), chain.arguments), target, options)
    except EdgecError as refusal:
        files.module.unlink(missing_ok=True)
        outcome = refusal.what
    verdict = _verdict(chain, outcome, start)
    expected = answers(chain)
    rounded = [value.astype(ELEMENTS[chain.element]) for value in expected]
    slack = _SPREADS * _allowed(chain, expected) / TOLERANCES[DType.of(rounded[0].dtype)]
    keep_made(files, chain.arguments, rounded, slack=slack, verdict=asdict(verdict))
    return verdict


def kept(folder: Path, ran: Path) -> tuple[list[Verdict], str]:
    """Verdicts on the chains that `made` kept, with what came of their modules, and the device.

    Args:
        folder: what `made` filled.
        ran: what `benchmarks.operators.elsewhere` wrote: a line of JSON for each module.
    """
    told = {row["key"]: row for row in map(json.loads, ran.read_text().splitlines())}
    found = []
    for note in sorted(folder.glob("*.json")):
        verdict = Verdict(**json.loads(note.read_text())["verdict"])
        if verdict.outcome == "compiled" and note.stem in told:
            row = told[note.stem]
            right = row["outcome"] == "right"
            outcome = "right" if right else f"{row['outcome']}: {row['reason']}"
            verdict = replace(verdict, outcome=outcome)
        found.append(verdict)
    return found, next((row["device"] for row in told.values()), "")


def _error(chain: Chain, loaded: runtime.LoadedModule, expected: Sequence[np.ndarray]) -> float:
    return _farthest(jax.tree.leaves(loaded.main(*chain.arguments)), expected)


def _apart(got: np.ndarray, expected: np.ndarray) -> float:
    if got.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    size = max(float(np.abs(expected).max()), 1.0)
    difference = np.abs(got.astype(np.float64) - expected)
    return float(np.where(np.isnan(expected) & np.isnan(got), 0.0, difference).max()) / size
