"""A `.tflite` file run by LiteRT: the answers that a module must give, and how exactly.

LiteRT has two sets of kernels, XNNPACK's and its reference. Of a quantised model they give answers
that differ by some steps of the grid; a module may be off by one step more than twice that.

Weights of 8 bits for activations of 32 (dynamic-range quantisation) are made 32-bit ones before a
run: LiteRT would quantise the activations, too, while it runs, which a module does not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgec.exporters.failures import reason_of
from edgec.exporters.from_tflite_call import dequantized
from edgec.exporters.from_tflite_model import TfliteModel, TfliteSubgraph, TfliteTensor
from edgec.exporters.traced import TracedCall
from edgec.runtime.comparison import Tolerance
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError

__all__ = ["LiteRt"]

_WITH_WEIGHTS = {
    "BATCH_MATMUL",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "EMBEDDING_LOOKUP",
    "FULLY_CONNECTED",
    "TRANSPOSE_CONV",
}


class LiteRt:
    """One subgraph of a model in LiteRT.

    Args:
        data: the file.
        model: the same, read.
        subgraph: which.
        key: the signature that runs it, or empty for the first subgraph.
        name: what messages call it.
    """

    def __init__(self, data: bytes, model: TfliteModel, subgraph: int, key: str, name: str) -> None:
        self._data = _with_wide_weights(data, model)
        self._graph = model.subgraphs[subgraph]
        self._names: Mapping[int, str] = {}
        self._results: Mapping[int, str] = {}
        for signature in model.signatures:
            if signature.key == key:
                self._names, self._results = signature.inputs, signature.outputs
        self._key, self._name = key, name

    def call(self, inputs: Sequence[np.ndarray]) -> TracedCall:
        """Run it.

        Raises:
            ExportError: LiteRT refuses.
        """
        from ai_edge_litert.interpreter import OpResolverType

        answers = self._run(inputs, OpResolverType.AUTO)
        if not any(
            _is_quantized(self._graph.tensors[i]) for o in self._graph.operators for i in o.outputs
        ):
            return TracedCall(inputs=tuple(inputs), outputs=tuple(answers))
        others = self._run(inputs, OpResolverType.BUILTIN_REF)
        within = tuple(
            self._allowed(index, one, other)
            for index, one, other in zip(self._graph.outputs, answers, others, strict=True)
        )
        return TracedCall(inputs=tuple(inputs), outputs=tuple(answers), within=within)

    def _allowed(self, index: int, one: np.ndarray, other: np.ndarray) -> float:
        """How far an output may be off: a step, and twice what LiteRT itself differs by."""
        distance = np.abs(one.astype(np.float64) - other.astype(np.float64))
        usual = Tolerance.of(DType.of(one.dtype)).absolute
        return max(usual, self._step(index)) + 2 * float(np.max(distance, initial=0.0))

    def _step(self, index: int) -> float:
        """A step of an output's grid: 1 for integers, the scale where they were made real."""
        tensor = self._graph.tensors[index]
        if _is_quantized(tensor):
            return 1.0
        for operator in self._graph.operators:
            if index in operator.outputs and operator.kind == "DEQUANTIZE":
                given = self._graph.tensors[operator.inputs[0]].quantization
                return 0.0 if given is None else max(given.scales)
        return 0.0

    def _run(self, inputs: Sequence[np.ndarray], kernels: Any) -> list[np.ndarray]:
        from ai_edge_litert.interpreter import Interpreter

        try:
            interpreter = Interpreter(
                model_content=self._data, experimental_op_resolver_type=kernels
            )
            if self._names or self._key:
                runner = interpreter.get_signature_runner(self._key)
                feed = {
                    self._names[index]: value
                    for index, value in zip(self._graph.inputs, inputs, strict=True)
                }
                answers = runner(**feed)
                return [np.asarray(answers[self._results[i]]) for i in self._graph.outputs]
            for index, value in zip(self._graph.inputs, inputs, strict=True):
                interpreter.resize_tensor_input(index, value.shape)
            interpreter.allocate_tensors()
            for index, value in zip(self._graph.inputs, inputs, strict=True):
                interpreter.set_tensor(index, value)
            interpreter.invoke()
            return [interpreter.get_tensor(index) for index in self._graph.outputs]
        except (ValueError, RuntimeError, KeyError) as error:
            raise ExportError(
                f"LiteRT cannot run {self._name} on the example inputs: {reason_of(error)}",
                hint="check that the file runs in ai_edge_litert's Interpreter",
            ) from error


def _is_quantized(tensor: TfliteTensor) -> bool:
    return tensor.quantization is not None and tensor.dtype.itemsize <= 2


def _with_wide_weights(data: bytes, model: TfliteModel) -> bytes:
    """The file with f32 weights where activations are f32; the same bytes if there are none."""
    narrow = [
        (number, index)
        for number, graph in enumerate(model.subgraphs)
        for index in sorted(_narrow_weights(graph))
    ]
    if not narrow:
        return data
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    file = schema.ModelT.InitFromPackedBuf(data, 0)
    for number, index in narrow:
        tensor = model.subgraphs[number].tensors[index]
        wide = np.asarray(dequantized(tensor.data, tensor), np.float32)
        made = file.subgraphs[number].tensors[index]
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(wide.tobytes(), np.uint8)
        file.buffers.append(buffer)
        made.buffer = len(file.buffers) - 1
        made.type = schema.TensorType.FLOAT32
        made.quantization = None
    builder = flatbuffers.Builder(len(data))
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _narrow_weights(graph: TfliteSubgraph) -> set[int]:
    """Quantised constants that operators with f32 results take as weights."""
    return {
        index
        for operator in graph.operators
        if operator.kind in _WITH_WEIGHTS and graph.tensors[operator.outputs[0]].dtype == np.float32
        for index in operator.inputs
        if index >= 0
        and graph.tensors[index].data is not None
        and _is_quantized(graph.tensors[index])
    }
