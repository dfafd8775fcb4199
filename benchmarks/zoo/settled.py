"""A test that edgec refuses, and whether anyone could meet the answers that come with it.

They cannot be met where one who runs the model gives others at each call, or than the file: a
generator that ONNX leaves open, for one. edgec's own answers are onnxruntime's.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.narrow import carried, restored

__all__ = ["unsettled"]

_CLOSE = 1e-3


def unsettled(file: str, inputs: Sequence[np.ndarray], answers: Sequence[np.ndarray]) -> str:
    """Why a test's answers are not settled; empty if they are, or if nothing runs it.

    Args:
        file: the `.onnx` file.
        inputs: of the test, narrow types as bytes.
        answers: of the test.
    """
    import onnx

    model = onnx.load(file)
    given = model.graph.input
    feed = {
        value.name: restored(array, value.type.tensor_type.elem_type)
        for value, array in zip(given, inputs, strict=False)
    }
    others = []
    for name, evaluator in _evaluators(model):
        try:
            first, second = (_run(evaluator, feed) for _ in range(2))
        except Exception:  # noqa: BLE001 - each has errors of its own, and need not take the model
            continue
        if not _agree(first, second):
            return f"{name} gives other answers at each call"
        others.append((name, _agree(first, answers)))
    met, wrong = (
        " and ".join(n for n, found in others if found == is_met) for is_met in (True, False)
    )
    return f"{wrong} has other answers than the test{f' and {met}' * bool(met)}" if wrong else ""


def _evaluators(model: Any) -> Iterable[tuple[str, Any]]:
    import onnxruntime as ort
    from onnx.reference import ReferenceEvaluator

    options = ort.SessionOptions()
    options.log_severity_level = 4
    text = model.SerializeToString()
    makers = {
        "onnxruntime": lambda: ort.InferenceSession(text, options, ["CPUExecutionProvider"]),
        "onnx.reference": lambda: ReferenceEvaluator(model),
    }
    for name, make in makers.items():
        try:
            evaluator = make()
        except Exception:  # noqa: BLE001 - each has errors of its own, and need not take the model
            continue
        yield name, evaluator


def _run(evaluator: Any, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [carried(np.asarray(answer)) for answer in evaluator.run(None, feed)]


def _agree(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return all(
        one.shape == other.shape
        and np.allclose(
            one.astype(np.float64), other.astype(np.float64), _CLOSE, _CLOSE, equal_nan=True
        )
        for one, other in zip(some, others, strict=True)
    )
