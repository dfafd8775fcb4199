"""Small `.tflite` files made by hand, without TensorFlow: tensors, operators, signatures.

graph = Graph()
x = graph.tensor("x", (1, 4))
y = graph.tensor("y", (1, 4))
graph.operator("RELU", [x], [y])
data = graph.file([x], [y])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "float16": schema.TensorType.FLOAT16,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int16": schema.TensorType.INT16,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
    "bool": schema.TensorType.BOOL,
    "resource": schema.TensorType.RESOURCE,
}


@dataclass
class Graph:
    """One subgraph as it grows. Tensors are known by their index."""

    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    codes: list[Any] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        quantized: tuple[Any, Any] | None = None,
        axis: int = 0,
        variable: bool = False,
    ) -> int:
        """A tensor without data; a dimension of -1 is dynamic; `quantized` is (scales, zeros)."""
        made = schema.TensorT()
        made.name = name.encode()
        made.shape = np.array([max(d, 1) for d in shape], np.int32)
        if any(d < 0 for d in shape):
            made.shapeSignature = np.array(shape, np.int32)
        made.hasRank = True
        made.type = TYPES[dtype]
        made.isVariable = variable
        if quantized is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = np.atleast_1d(np.array(quantized[0], np.float32))
            made.quantization.zeroPoint = np.atleast_1d(np.array(quantized[1], np.int64))
            made.quantization.quantizedDimension = axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, name: str, value: Any, **kwargs: Any) -> int:
        """A tensor with data."""
        array = np.asarray(value, order="C")
        index = self.tensor(name, array.shape, str(array.dtype), **kwargs)
        made = schema.BufferT()
        made.data = np.frombuffer(array.tobytes(), np.uint8)
        self.buffers.append(made)
        self.tensors[index].buffer = len(self.buffers) - 1
        return index

    def sparse(
        self,
        name: str,
        shape: Sequence[int],
        values: np.ndarray,
        levels: Sequence[int | tuple[Sequence[int], Sequence[int]]],
        *,
        order: Sequence[int],
        blocks: Sequence[int] = (),
    ) -> int:
        """A tensor of which the file holds some values; a level is a size, or segments and places.

        `order` are the axes level by level, those of blocks behind all others; `blocks` says which
        axis a block is of.
        """
        index = self.constant(name, values)
        made = self.tensors[index]
        made.shape = np.array(shape, np.int32)
        made.sparsity = schema.SparsityParametersT()
        made.sparsity.traversalOrder = np.array(order, np.int32)
        made.sparsity.blockMap = np.array(blocks, np.int32) if blocks else None
        made.sparsity.dimMetadata = [_level(level) for level in levels]
        return index

    def operator(
        self, kind: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any
    ) -> None:
        """An operator; `options` is `kind_of_options={field: value}` (`AddOptions={…}`)."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = options.pop("version", 1)
        if kind == "CUSTOM":
            code.customCode = options.pop("custom").encode()
        self.codes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex = len(self.codes) - 1
        made.inputs = np.array(inputs, np.int32)
        made.outputs = np.array(outputs, np.int32)
        for name, fields in options.items():
            made.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            made.builtinOptions = getattr(schema, f"{name}T")()
            for key, value in fields.items():
                assert hasattr(made.builtinOptions, key), f"{name} has no {key}"
                setattr(made.builtinOptions, key, value)
        self.operators.append(made)

    def file(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        signature: tuple[str, Mapping[str, int], Mapping[str, int]] | None = None,
        inner: Sequence[tuple[int, int, Sequence[int], Sequence[int]]] = (),
    ) -> bytes:
        """The bytes of a file with this graph.

        `signature` is (key, inputs, outputs). `inner` are further subgraphs: the first and the
        end of the operators that are theirs, their inputs and outputs; all share the tensors.
        """
        graph = schema.SubGraphT()
        graph.name = b"main"
        taken = {i for first, end, *_ in inner for i in range(first, end)}
        graph.tensors = self.tensors
        graph.operators = [o for i, o in enumerate(self.operators) if i not in taken]
        graph.inputs, graph.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        model = schema.ModelT()
        model.version = 3
        model.subgraphs, model.buffers, model.operatorCodes = [graph], self.buffers, self.codes
        for first, end, takes, gives in inner:
            part = schema.SubGraphT()
            part.tensors, part.operators = self.tensors, self.operators[first:end]
            part.inputs, part.outputs = np.array(takes, np.int32), np.array(gives, np.int32)
            model.subgraphs.append(part)
        model.signatureDefs = [_signature(*signature)] if signature else []
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _level(level: int | tuple[Sequence[int], Sequence[int]]) -> Any:
    made = schema.DimensionMetadataT()
    if isinstance(level, int):
        made.format, made.denseSize = schema.DimensionType.DENSE, level
        return made
    made.format = schema.DimensionType.SPARSE_CSR
    numbers = [schema.Int32VectorT() for _ in level]
    for vector, values in zip(numbers, level, strict=True):
        vector.values = np.array(values, np.int32)
    made.arraySegments, made.arrayIndices = numbers
    made.arraySegmentsType = made.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    return made


def _signature(key: str, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> Any:
    made = schema.SignatureDefT()
    made.signatureKey, made.subgraphIndex = key.encode(), 0
    made.inputs, made.outputs = _maps(inputs), _maps(outputs)
    return made


def _maps(names: Mapping[str, int]) -> list[Any]:
    maps = []
    for name, index in names.items():
        made = schema.TensorMapT()
        made.name, made.tensorIndex = name.encode(), index
        maps.append(made)
    return maps
