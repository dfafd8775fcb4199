"""A model and inputs to its answers: by onnxruntime, or by ONNX' own reference where that refuses.

onnxruntime knows opsets, types and operators up to some version; the reference evaluator of the
`onnx` package knows all of that package's own version, slowly.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from edgec.exporters.from_onnx.inputs import OnnxInput
from edgec.exporters.from_onnx.narrow import carried, restored
from edgec.runtime.errors import ExportError, UnsupportedOp

__all__ = ["Answers", "first_line", "overflows"]


class _Evaluator(Protocol):
    def run(self, names: None, feed: dict[str, np.ndarray]) -> Sequence[Any]:
        """All outputs."""


class Answers:
    """A model that can be run; `literal` leaves every operation as it stands in the file.

    Arrays of 8-bit floats, and of 4 and 2 bits, are bytes here, as a module has them.

    Raises:
        ExportError: neither takes the model; both reasons are in the message.
    """

    def __init__(self, model: Any, name: str, *, literal: bool = False) -> None:
        self._name = name
        self._model = model
        self._types = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
        self._evaluators: list[_Evaluator] = []
        self._refusals: list[str] = []
        if literal and overflows():
            try:
                self._evaluators.append(_reference(model))
                return
            except Exception as error:  # noqa: BLE001 - whatever the model makes of it
                self._refusals.append(f"onnx.reference: {first_line(error)}")
        try:
            self._evaluators.append(_onnxruntime(model, literal=literal))
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors have no common class
            self._refusals.append(f"onnxruntime: {first_line(error)}")

    def strictly(
        self, given: Sequence[OnnxInput], data: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """The model's answers by onnxruntime alone, if it takes the model at all.

        The reference evaluator computes with NumPy, which broadcasts what does not fit.

        Raises: as `run`.
        """
        return self._answered(given, data, self._evaluators or self._tried())

    def run(self, given: Sequence[OnnxInput], data: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The model's answers.

        Raises:
            UnsupportedOp: neither takes the model, whatever the inputs.
            ExportError: it runs on these inputs in neither way.
        """
        return self._answered(given, data, self._tried())

    def _answered(
        self,
        given: Sequence[OnnxInput],
        data: Sequence[np.ndarray],
        evaluators: Iterable["_Evaluator"],
    ) -> tuple[np.ndarray, ...]:
        feed = {
            i.own: restored(array, self._types.get(i.own, 0))
            for i, array in zip(given, data, strict=True)
        }
        refusals, opened = list[str](), False
        for evaluator in evaluators:
            opened = True
            try:
                answers = evaluator.run(None, feed)
            except Exception as error:  # noqa: BLE001 - each has errors of its own
                refusals.append(f"{_said_by(evaluator)}: {first_line(error)}")
                continue
            return tuple(carried(np.asarray(answer)) for answer in answers)
        refusals = [*dict.fromkeys(self._refusals), *refusals]
        if not opened:
            raise UnsupportedOp(
                f"nothing here runs {self._name}: {'; '.join(refusals)}",
                hint="export the model again with operators of ONNX' own, in a version that "
                "onnxruntime here takes",
            )
        raise ExportError(
            f"{self._name} cannot be run on the example inputs: {'; '.join(refusals)}",
            hint="give inputs that it takes: --inputs=@FILE.npz, or from Python",
        )

    def _tried(self) -> Any:
        yield from self._evaluators
        try:
            yield _reference(self._model)
        except Exception as error:  # noqa: BLE001 - whatever the model makes of it
            self._refusals.append(f"onnx.reference: {first_line(error)}")


def first_line(error: Exception) -> str:
    """What an error says, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@functools.cache
def overflows() -> bool:
    """Whether onnxruntime's sums of unsigned by signed bytes overflow on this processor.

    It adds pairs of products in 16 bits where x86-64 has no VNNI. Where it may change a model it
    can be told not to (`session.x64quantprecision`), but not where it takes it literally, and not
    within operators of its own (`DynamicQuantizeLSTM`).
    Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
    """
    from onnx import TensorProto, helper, numpy_helper

    weights = np.full((4, 1), 127, np.int8)
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
            "overflows",
            [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 4))],
            [helper.make_tensor_value_info("y", TensorProto.INT32, (1, 1))],
            [numpy_helper.from_array(weights, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    (found,) = _onnxruntime(model, literal=True).run(None, {"x": np.full((1, 4), 255, np.uint8)})
    return int(found.item()) != 4 * 127 * 255


def _onnxruntime(model: Any, *, literal: bool) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    # On x86-64 without VNNI its sums of unsigned by signed bytes overflow at 16 bits otherwise.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if literal:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _reference(model: Any) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model, new_ops=[_loop()])


def _loop() -> Any:
    """ONNX' own evaluation of `Loop`, which joins what the turns give instead of stacking it."""
    from onnx.reference.ops.op_loop import Loop as Joining

    class Loop(Joining):  # type: ignore[misc]  # ONNX has no types
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self._turns: list[Sequence[np.ndarray]] = []
            body: Callable[..., Any] = vars(self)["_run_body"]

            def kept(*inputs: Any, **named: Any) -> Sequence[Any]:
                found: Sequence[Any] = body(*inputs, **named)
                self._turns.append(found[len(found) - self.K :])
                return found

            self._run_body = kept

        def _run(self, *inputs: Any, **named: Any) -> Any:
            self._turns = []
            found = super()._run(*inputs, **named)
            stacked = (np.stack(rows) for rows in zip(*self._turns, strict=True))
            return (*found[: len(found) - self.K], *stacked)

    return Loop


def _said_by(evaluator: Any) -> str:
    return "onnx.reference" if type(evaluator).__module__.startswith("onnx.") else "onnxruntime"
