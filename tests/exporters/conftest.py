"""What the exporters' tests share: a program to answers, through compile and load on this CPU."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.program import Program

Replay = Callable[[Program], float]


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """Compile a program, make its golden calls on a fresh module, return the largest error.

    Errors are absolute, or relative where the answer is larger than 1. Shapes and dtypes must be
    the framework's.
    """

    def run(program: Program) -> float:
        from edgec import runtime, toolchain

        saved = program.save(tmp_path / "replay.mlirbc")
        options = toolchain.CompileOptions(
            output=tmp_path / "replay.vmfb", level=1, check=False, cache=False
        )
        toolchain.compile(saved, "cpu", options)
        weights = program.info.weights
        file = None if weights is None else tmp_path / weights.file
        worst = 0.0
        assert program.golden is not None
        with runtime.load(tmp_path / "replay.vmfb", device="local-task", weights=file) as module:
            for call in program.golden.calls:
                results = module[call.signature].call_flat(call.inputs)
                assert len(results) == len(call.outputs)
                for result, expected in zip(results, call.outputs, strict=True):
                    actual = result.numpy()
                    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
                    worst = max(worst, _error(actual, expected))
        return worst

    return run


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    if actual.size == 0:
        return 0.0
    one, other = actual.astype(np.complex128), expected.astype(np.complex128)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        away = np.abs(one - other) / np.maximum(1.0, np.abs(other))
    return float(np.max(np.where(same, 0.0, away)))
