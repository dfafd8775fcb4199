"""The bytes of a `.tflite` file to plain tensors and operators, read by LiteRT's own schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.extras import need
from edgec.exporters.failures import reason_of
from edgec.exporters.from_tflite.sparse import dense
from edgec.runtime.errors import SourceError, UnsupportedOp
from edgec.runtime.signature import Quantization

__all__ = ["TfliteModel", "TfliteOperator", "TfliteSignature", "TfliteTensor", "read_model"]

MAGIC = b"TFL3"

# TensorFlow Lite's element types to NumPy's; what is missing here has no counterpart.
_DTYPES = {
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "FLOAT64": "float64",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT16": "int16",
    "UINT16": "uint16",
    "INT32": "int32",
    "UINT32": "uint32",
    "INT64": "int64",
    "UINT64": "uint64",
    "BOOL": "bool",
    "COMPLEX64": "complex64",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class TfliteTensor:
    """One tensor of a subgraph.

    Attributes:
        index: its number in the subgraph.
        name: as the file has it.
        shape: as the file was converted for; a dimension of unknown size is 1 here.
        unknown: the axes whose size is not known.
        kind: its element type as TensorFlow Lite spells it.
        data: its values, for constants.
        quantization: what its integers stand for.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    unknown: tuple[int, ...]
    kind: str
    data: np.ndarray | None
    quantization: Quantization | None

    @property
    def dtype(self) -> np.dtype:
        """Its element type.

        Raises:
            UnsupportedOp: edgec has none for it.
        """
        if self.kind not in _DTYPES:
            raise UnsupportedOp(
                f"the tensor {self.name} has elements of type {self.kind}, which edgec does not "
                "take",
                hint="convert the model again without it",
            )
        return np.dtype(_DTYPES[self.kind])


@dataclass(frozen=True, kw_only=True)
class TfliteOperator:
    """One operator: its kind (`CONV_2D`), its tensors (-1 where there is none) and options."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any


@dataclass(frozen=True, kw_only=True)
class TfliteSubgraph:
    """Tensors and the operators between them, in an order in which they can be computed."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TfliteSignature:
    """A signature: the names of its inputs and outputs by tensor, and its subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[int, str]
    outputs: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class TfliteModel:
    """What a file holds."""

    subgraphs: tuple[TfliteSubgraph, ...]
    signatures: tuple[TfliteSignature, ...]


def read_model(data: bytes, subject: str) -> TfliteModel:
    """Read a file.

    Args:
        data: its bytes.
        subject: its name, for messages.

    Raises:
        MissingExtra: LiteRT is not installed.
        SourceError: it is no such file, or damaged.
    """
    need("ai_edge_litert", extra="tflite", why="opening a .tflite file")
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter

    if data[4:8] != MAGIC:
        raise SourceError(f"{subject} is no .tflite file", hint="check the path")
    try:
        Interpreter(model_content=data)  # verifies every offset in the file
        file = schema.ModelT.InitFromPackedBuf(data, 0)
        return _Reader(schema, file, data).model()
    except (ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise SourceError(
            f"{subject} is no sound .tflite file: {reason_of(error)}",
            hint="convert the model again",
        ) from error


class _Reader:
    def __init__(self, schema: Any, file: Any, data: bytes) -> None:
        self._file, self._data = file, data
        self._types = _names(schema.TensorType)
        self._kinds = _names(schema.BuiltinOperator)

    def model(self) -> TfliteModel:
        model = TfliteModel(
            subgraphs=tuple(self._subgraph(graph) for graph in self._file.subgraphs),
            signatures=tuple(self._signature(s) for s in self._file.signatureDefs or ()),
        )
        _check_indices(model)
        return model

    def _signature(self, made: Any) -> TfliteSignature:
        return TfliteSignature(
            key=_text(made.signatureKey),
            subgraph=int(made.subgraphIndex),
            inputs={int(m.tensorIndex): _text(m.name) for m in made.inputs or ()},
            outputs={int(m.tensorIndex): _text(m.name) for m in made.outputs or ()},
        )

    def _subgraph(self, graph: Any) -> TfliteSubgraph:
        return TfliteSubgraph(
            tensors=tuple(self._tensor(i, t) for i, t in enumerate(graph.tensors or ())),
            operators=tuple(self._operator(o) for o in _list(graph.operators)),
            inputs=_ints(graph.inputs),
            outputs=_ints(graph.outputs),
        )

    def _operator(self, made: Any) -> TfliteOperator:
        code = self._file.operatorCodes[made.opcodeIndex]
        kind = self._kinds[max(int(code.builtinCode), int(code.deprecatedBuiltinCode))]
        if kind == "CUSTOM":
            kind = f"CUSTOM {_text(code.customCode)}"
        return TfliteOperator(
            kind=kind,
            inputs=_ints(made.inputs),
            outputs=_ints(made.outputs),
            options=made.builtinOptions,
        )

    def _tensor(self, index: int, made: Any) -> TfliteTensor:
        shape = _ints(made.shape)
        signature = _ints(made.shapeSignature) or shape
        tensor = TfliteTensor(
            index=index,
            name=_text(made.name) or f"tensor{index}",
            shape=tuple(max(d, 0) for d in shape),
            unknown=tuple(axis for axis, d in enumerate(signature) if d < 0),
            kind=self._types[int(made.type)],
            data=None,
            quantization=_quantization(made.quantization),
        )
        raw = self._bytes(int(made.buffer))
        if not raw or tensor.kind not in _DTYPES:
            return tensor
        values = np.frombuffer(raw, tensor.dtype)
        if made.sparsity is None:
            values = values.reshape(shape)
        else:
            values = dense(values, shape, made.sparsity)
        return TfliteTensor(**{**vars(tensor), "data": values})

    def _bytes(self, index: int) -> bytes:
        buffer = self._file.buffers[index]
        if buffer.offset > 1:  # models of more than 2 GB keep their weights behind the tables
            return self._data[buffer.offset : buffer.offset + buffer.size]
        return b"" if buffer.data is None or not len(buffer.data) else bytes(buffer.data)


def _check_indices(model: TfliteModel) -> None:
    """Raise ValueError where a number stands for no tensor or subgraph."""
    for graph in model.subgraphs:
        count = len(graph.tensors)
        made = [*graph.inputs, *graph.outputs, *(i for o in graph.operators for i in o.outputs)]
        read = [i for o in graph.operators for i in o.inputs]
        if not all(0 <= i < count for i in made) or not all(-1 <= i < count for i in read):
            raise ValueError("an operator names a tensor that is not there")
    for signature in model.signatures:
        if not 0 <= signature.subgraph < len(model.subgraphs):
            raise ValueError(f"the signature {signature.key} has no subgraph")
        graph = model.subgraphs[signature.subgraph]
        named = (set(signature.inputs), set(signature.outputs))
        if named != (set(graph.inputs), set(graph.outputs)):
            raise ValueError(f"the signature {signature.key} does not name what its subgraph takes")


def _quantization(made: Any) -> Quantization | None:
    if made is None or made.scale is None or not len(made.scale):
        return None
    scales = tuple(float(s) for s in made.scale)
    zeros = _ints(made.zeroPoint) or (0,)
    if len(zeros) == 1:
        zeros *= len(scales)
    return Quantization(scales=scales, zero_points=zeros, axis=int(made.quantizedDimension))


def _names(kind: type) -> dict[int, str]:
    return {value: name for name, value in vars(kind).items() if isinstance(value, int)}


def _text(value: bytes | str | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _list(value: Sequence[Any] | None) -> Sequence[Any]:
    return () if value is None else value


def _ints(values: Any) -> tuple[int, ...]:
    """Numbers of a vector, which is NumPy's, a list, or 0 or None where it is absent."""
    if values is None or isinstance(values, int):
        return ()
    return tuple(int(v) for v in values)
