"""ONNX models, made node by node or by torch.onnx."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.coverage.case import Case, Given, Source, integers, normal

FLOAT = TensorProto.FLOAT
OPSET = 17


def value(name: str, shape: Sequence[int | str], kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def graph(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **weights: np.ndarray
) -> Any:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(
            helper.make_graph(list(nodes), "case", list(inputs), list(outputs), initializers),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,
        )
    )


def mlp_graph(batch: int | str) -> Any:
    node = helper.make_node
    return graph(
        [
            node("Gemm", ["x", "w", "b"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("Gemm", ["r", "v", "c"], ["y"]),
        ],
        [value("x", [batch, 32])],
        [value("y", [batch, 10])],
        w=normal(32, 64, scale=0.2),
        b=normal(64),
        v=normal(64, 10, scale=0.1),
        c=normal(10),
    )


def mlp() -> Given:
    return Given(model=mlp_graph(4), inputs=(normal(4, 32),))


def mlp_dynamic() -> Given:
    return Given(model=mlp_graph("n"), inputs=(normal(4, 32),), dynamic="batch=1..16")


def mlp_external() -> Given:
    return Given(model=mlp_graph(4), inputs=(normal(4, 32),), external_weights="mlp.safetensors")


def mlp_file() -> Source:
    onnx.save(mlp_graph(4), "mlp.onnx")
    return Source(text="mlp.onnx")


def cnn() -> Given:
    node = helper.make_node
    model = graph(
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["p", "d"], ["c"], group=8, pads=[1, 1, 1, 1]),
            node("GlobalAveragePool", ["c"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("Softmax", ["f"], ["y"]),
        ],
        [value("x", [1, 3, 16, 16])],
        [value("y", [1, 8])],
        w=normal(8, 3, 3, 3, scale=0.2),
        d=normal(8, 1, 3, 3, scale=0.3),
        scale=np.abs(normal(8)),
        bias=normal(8),
        mean=normal(8, seed=1),
        var=np.abs(normal(8, seed=2)) + 0.5,
    )
    return Given(model=model, inputs=(normal(1, 3, 16, 16),))


def recurrent() -> Given:
    model = graph(
        [
            helper.make_node("LSTM", ["x", "w", "r"], ["y", "h", ""], hidden_size=16),
        ],
        [value("x", [10, 2, 8])],
        [value("y", [10, 1, 2, 16]), value("h", [1, 2, 16])],
        w=normal(1, 64, 8, scale=0.3),
        r=normal(1, 64, 16, scale=0.2),
    )
    return Given(model=model, inputs=(normal(10, 2, 8),))


def embedding_and_top_k() -> Given:
    node = helper.make_node
    model = graph(
        [
            node("Gather", ["table", "tokens"], ["rows"]),
            node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
            node("TopK", ["mean", "three"], ["top", "at"]),
        ],
        [value("tokens", [2, 6], TensorProto.INT64)],
        [value("top", [2, 3]), value("at", [2, 3], TensorProto.INT64)],
        table=normal(50, 16),
        three=np.array([3], np.int64),
    )
    return Given(model=model, inputs=(integers(50, 2, 6, dtype=np.int64),))


def quantised() -> Given:
    """Quantise, integer matrix product, dequantise."""
    node = helper.make_node
    model = graph(
        [
            node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
            node("DequantizeLinear", ["q", "sx", "zx"], ["d"]),
            node("DequantizeLinear", ["w", "sw", "zw"], ["dw"]),
            node("MatMul", ["d", "dw"], ["y"]),
        ],
        [value("x", [4, 32])],
        [value("y", [4, 16])],
        w=integers(127, 32, 16, low=-127, dtype=np.int8),
        sx=np.float32(0.05),
        zx=np.int8(0),
        sw=np.float32(0.01),
        zw=np.int8(0),
    )
    return Given(model=model, inputs=(normal(4, 32),))


def resize() -> Given:
    model = graph(
        [
            helper.make_node(
                "Resize",
                ["x", "", "scales"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="half_pixel",
            )
        ],
        [value("x", [1, 3, 8, 8])],
        [value("y", [1, 3, 16, 16])],
        scales=np.array([1, 1, 2, 2], np.float32),
    )
    return Given(model=model, inputs=(normal(1, 3, 8, 8),))


def branch() -> Given:
    node = helper.make_node
    model = graph(
        [
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Greater", ["s", "zero"], ["c"]),
            node(
                "If",
                ["c"],
                ["y"],
                then_branch=helper.make_graph(
                    [node("Exp", ["x"], ["e"])], "then", [], [value("e", [5])]
                ),
                else_branch=helper.make_graph(
                    [node("Neg", ["x"], ["n"])], "else", [], [value("n", [5])]
                ),
            ),
        ],
        [value("x", [5])],
        [value("y", [5])],
        zero=np.float32(0),
    )
    return Given(model=model, inputs=(normal(5),))


def transformer() -> Given:
    """PyTorch's encoder layer through PyTorch's own ONNX exporter."""
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    x = normal(2, 8, 32)
    made = torch.onnx.export(layer, (torch.from_numpy(x),), dynamo=True, verbose=False)
    return Given(model=made.model_proto, inputs=(x,))


CASES = (
    Case("MLP", "f32", mlp),
    Case("MLP, dynamic batch", "f32", mlp_dynamic),
    Case("MLP, external weights", "f32", mlp_external),
    Case("MLP as an .onnx file", "f32", mlp_file),
    Case("CNN with depthwise layer", "f32", cnn),
    Case("LSTM", "f32", recurrent),
    Case("transformer encoder, by torch.onnx", "f32", transformer),
    Case("embedding, top-k", "f32, i64", embedding_and_top_k),
    Case("quantised matrix product", "i8, f32", quantised),
    Case("resize", "f32", resize),
    Case("branch (If)", "f32", branch),
)
