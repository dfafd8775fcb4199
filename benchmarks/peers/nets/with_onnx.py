"""The words of models as an ONNX graph, in the form that exporters write: channels first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers.nets.net import Input, Net, Value

__all__ = ["OnnxNet"]

_OPSET = 20
_IR_VERSION = 10
_TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "float16": TensorProto.FLOAT16}


class OnnxNet(Net):
    """Values are names in a graph that grows; `model` closes it."""

    channels_first = True

    def __init__(self, dtype: str = "float32") -> None:
        """`dtype` is that of all floats: inputs, weights and what is computed."""
        self._dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._weights: dict[tuple[int, str], str] = {}
        self._initializers: list[Any] = []
        self._alive: list[np.ndarray] = []
        self._count = 0

    def model(self, inputs: Sequence[Input], outputs: Sequence[str]) -> Any:
        """The finished, checked model."""
        given = [
            helper.make_tensor_value_info(i.name, self._type(i), self._shape(i)) for i in inputs
        ]
        wanted = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self._nodes, "main", given, wanted, self._initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
        )
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(inferred)
        return inferred

    def _type(self, spec: Input) -> int:
        return int(_TYPES[self._dtype.name if spec.dtype == "float32" else spec.dtype])

    @staticmethod
    def _shape(spec: Input) -> tuple[int, ...]:
        if not spec.image:
            return spec.shape
        return (spec.shape[0], spec.shape[-1], *spec.shape[1:-1])

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind.lower()}_{self._count}"

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = self._name(kind)
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def _w(self, array: np.ndarray, how: str = "") -> str:
        key = (id(array), how)
        if key in self._weights:
            return self._weights[key]
        form = array
        if how == "kernel":
            form = np.moveaxis(array, (-1, -2), (0, 1))
        elif how == "transposed":
            # ONNX's transposed convolution turns the kernel round, JAX's does not.
            form = np.moveaxis(array[::-1, ::-1], (-2, -1), (0, 1))
        elif how == "lstm":
            i, f, g, o = np.split(array, 4, axis=-1)
            form = np.concatenate([i, o, f, g], axis=-1).T[None]
        elif how == "lstm bias":
            i, f, g, o = np.split(array, 4, axis=-1)
            form = np.concatenate([i, o, f, g, np.zeros_like(array)])[None]
        self._alive.append(array)  # so that no other array gets its id
        self._weights[key] = self._constant(form)
        return self._weights[key]

    def _constant(self, array: np.ndarray) -> str:
        name = self._name("weight")
        if array.dtype == np.float32:
            array = array.astype(self._dtype)
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def conv(
        self,
        x: Value,
        kernel: np.ndarray,
        bias: np.ndarray,
        *,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
    ) -> Value:
        space = kernel.ndim - 2
        return self._add(
            "Conv",
            x,
            self._w(kernel, "kernel"),
            self._w(bias),
            kernel_shape=kernel.shape[:space],
            strides=[stride] * space,
            pads=[pad] * (2 * space),
            group=groups,
        )

    def up_conv(self, x: Value, kernel: np.ndarray, bias: np.ndarray) -> Value:
        return self._add(
            "ConvTranspose",
            x,
            self._w(kernel, "transposed"),
            self._w(bias),
            kernel_shape=[2, 2],
            strides=[2, 2],
        )

    def max_pool(self, x: Value, *, size: int, stride: int, pad: int = 0, space: int = 2) -> Value:
        return self._add(
            "MaxPool",
            x,
            kernel_shape=[size] * space,
            strides=[stride] * space,
            pads=[pad] * (2 * space),
        )

    def mean_space(self, x: Value) -> Value:
        return self._add("GlobalAveragePool", x)

    def join_channels(self, x: Value, y: Value) -> Value:
        return self._add("Concat", x, y, axis=1)

    def vector(self, x: Value, channels: int) -> Value:
        return self._add("Flatten", x, axis=1)

    def tokens(self, x: Value, points: int, channels: int) -> Value:
        flat = self._add("Reshape", x, self._constant(np.array([1, channels, points])))
        return self._add("Transpose", flat, perm=[0, 2, 1])

    def image(self, x: Value) -> Value:
        return self._add("Transpose", x, perm=[0, 2, 3, 1])

    def _other(self, y: Value | float | np.ndarray) -> str:
        if isinstance(y, np.ndarray):
            return self._w(y)
        return y if isinstance(y, str) else self._constant(np.array(y, np.float32))

    def add(self, x: Value, y: Value | float) -> Value:
        return self._add("Add", x, self._other(y))

    def mul(self, x: Value, y: Value | float) -> Value:
        return self._add("Mul", x, self._other(y))

    def div(self, x: Value, y: Value) -> Value:
        return self._add("Div", x, y)

    def sqrt(self, x: Value) -> Value:
        return self._add("Sqrt", x)

    def activate(self, x: Value, kind: str) -> Value:
        if kind == "relu6":
            return self._add("Clip", x, self._other(0.0), self._other(6.0))
        if kind == "silu":
            return self._add("Mul", x, self._add("Sigmoid", x))
        if kind == "hard_sigmoid":
            return self._add("HardSigmoid", x, alpha=1 / 6, beta=0.5)
        if kind == "gelu_tanh":
            return self._add("Gelu", x, approximate="tanh")
        names = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
        return self._add({**names, "hard_swish": "HardSwish", "gelu": "Gelu"}[kind], x)

    def to_float(self, x: Value) -> Value:
        return self._add("Cast", x, to=_TYPES[self._dtype.name])

    def dense(self, x: Value, kernel: np.ndarray, bias: np.ndarray | None) -> Value:
        y = self._add("MatMul", x, self._w(kernel))
        return y if bias is None else self._add("Add", y, self._w(bias))

    def matmul(self, x: Value, y: Value) -> Value:
        return self._add("MatMul", x, y)

    def softmax(self, x: Value) -> Value:
        return self._add("Softmax", x, axis=-1)

    def layer_norm(self, x: Value, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> Value:
        return self._add(
            "LayerNormalization", x, self._w(scale), self._w(bias), axis=-1, epsilon=epsilon
        )

    def take(self, table: np.ndarray, ids: Value) -> Value:
        return self._add("Gather", self._w(table), ids, axis=0)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self._add("Reshape", x, self._constant(np.array(shape, np.int64)))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self._add("Transpose", x, perm=list(axes))

    def concat(self, values: Sequence[Value | np.ndarray], axis: int) -> Value:
        return self._add("Concat", *(self._other(v) for v in values), axis=axis)

    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        return self._add(
            "Slice", x, *(self._constant(np.array([n], np.int64)) for n in (begin, end, axis))
        )

    def total(self, x: Value, axis: int) -> Value:
        return self._add("ReduceSum", x, self._constant(np.array([axis], np.int64)), keepdims=1)

    def lstm(self, x: Value, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> Value:
        steps = self._add("Transpose", x, perm=[1, 0, 2])
        states = self._add(
            "LSTM",
            steps,
            self._w(kernel, "lstm"),
            self._w(recurrent, "lstm"),
            self._w(bias, "lstm bias"),
            hidden_size=recurrent.shape[0],
        )
        one = self._add("Squeeze", states, self._constant(np.array([1], np.int64)))
        return self._add("Transpose", one, perm=[1, 0, 2])
