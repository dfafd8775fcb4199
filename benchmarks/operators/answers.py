"""A compiled case on a device: run, and compared with JAX's answers. Without JAX or a compiler.

python -m benchmarks.operators.answers FOLDER DEVICE BESIDE

Keys come from stdin, a line for each. Modules and cases lie in FOLDER; each module runs on DEVICE,
which counts, and on BESIDE.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators.make import Made, load_made
from edgec import runtime
from edgec.runtime import Tolerance
from edgec.runtime.comparison import compare
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError

__all__ = ["RIGHT", "TOLERANCES", "Outcome", "Stop", "run_module", "said", "short"]

TOLERANCES = {
    DType.F16: 1e-2,
    DType.BF16: 5e-2,
    DType.F32: 1e-4,
    DType.F64: 1e-8,
    DType.C64: 1e-4,
    DType.C128: 1e-8,
}
"""What an answer may be off by, as a part of its size and of how far the answers lie apart.

The second is for what terms lose that cancel each other. All others are exact.
"""


class Outcome(Enum):
    """What became of a case."""

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"
    FAILED = "failed"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUTSIDE = "outside"
    COMPILED = "compiled"
    """For a device on another machine."""


@dataclass(frozen=True, kw_only=True)
class Stop(Exception):
    """The end of a case before its answers were compared."""

    outcome: Outcome
    reason: str = ""


RIGHT = Stop(outcome=Outcome.RIGHT)


def run_module(
    module: Path,
    device: str,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    note: Mapping[str, Any],
) -> tuple[Stop, list[tuple[np.dtype, tuple[int, ...], bytes]]]:
    """Run the module on a driver: what became of it, and the bits where they are right."""
    try:
        outputs = _compared(module, device, inputs, expected, note)
    except Stop as stop:
        return stop, []
    return RIGHT, [(a.dtype, a.shape, a.tobytes()) for a in outputs]


_CALLS = 3
"""Of each module: what a call leaves behind must not change the answers of the next."""


def _compared(
    module: Path,
    device: str,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    note: Mapping[str, Any],
) -> list[np.ndarray]:
    """Run the module; its answers, all of which are right.

    Raises:
        Stop: it does not run, or its answers are wrong.
    """
    given = [_shared(array) for array in inputs]
    try:
        with runtime.load(module, device=device) as loaded:
            outputs, *later = (
                [np.array(array.numpy()) for array in loaded["main"].call_flat(given)]
                for _ in range(_CALLS)
            )
    except EdgecError as error:
        raise Stop(outcome=Outcome.FAILED, reason=f"run: {error.what}") from error
    if any(a.tobytes() != b.tobytes() for a, b in zip(given, inputs, strict=True)):
        raise Stop(outcome=Outcome.WRONG, reason="the caller's array was changed")
    for actual, right in zip(outputs, expected, strict=True):
        if actual.dtype != right.dtype:
            reason = f"the type is {actual.dtype} and should be {right.dtype}"
            raise Stop(outcome=Outcome.WRONG, reason=reason)
        kind = DType.of(right.dtype)
        part = TOLERANCES.get(kind, 0.0) * note["slack"]
        tolerance = Tolerance(absolute=Tolerance.of(kind).absolute, relative=part, spread=part)
        result = compare(actual, right, tolerance)
        if not result.ok:
            raise Stop(outcome=Outcome.WRONG, reason=result.problem)
    for again in later:
        if any(a.tobytes() != b.tobytes() for a, b in zip(again, outputs, strict=True)):
            raise Stop(outcome=Outcome.WRONG, reason="another answer at a later call")
    return outputs


def _shared(array: np.ndarray) -> np.ndarray:
    """The array at an address of which the runtime makes no copy."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def short(text: str) -> str:
    """What a compiler says, without types and numbers, so that equal faults read alike."""
    text = text.partition(" see current operation")[0]
    text = re.sub(r"tensor<[^>]*>+|vector<[^>]*>", "T", text)
    text = re.sub(r"(explicitly marked illegal)?: %.*", "", text)
    return re.sub(r"\b\d+\b", "N", re.sub(r"\s+", " ", text))[:150]


def said(end: Stop | None) -> str:
    """How a case ended on a driver, in a row; empty where it did not run there."""
    if end is None or end is RIGHT:
        return "" if end is None else Outcome.RIGHT.value
    return f"{end.outcome.value} ({short(end.reason)})"


def main() -> None:
    folder, device, beside = sys.argv[1:]
    for line in sys.stdin:
        made = Made(Path(folder), line.strip())
        note, inputs, expected = load_made(made)
        other, its_bits = run_module(made.module, beside, inputs, expected, note)
        here, bits = run_module(made.module, device, inputs, expected, note)
        answer = {
            "outcome": here.outcome.value,
            "reason": here.reason,
            "iree": said(other),
            "same": bool(bits) and bits == its_bits,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
