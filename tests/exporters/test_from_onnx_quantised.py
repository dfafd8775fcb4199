"""Quantised ONNX in plain operations: the same numbers in onnxruntime, and as a module."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from edgec.exporters import export
from edgec.exporters.from_onnx.prepare import prepare
from edgec.runtime import check_golden
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.program import Dialect

RANDOM = np.random.default_rng(5)
KINDS = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8}
NEW = {
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeLinear",
}


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, int],
    constants: Mapping[str, np.ndarray],
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def answers(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(inputs))


def plain(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    made = prepare(model, {name: value.shape for name, value in inputs.items()})
    assert not {node.op_type for node in made.graph.node} & NEW
    return made


def compared(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], quanta: float = 0.0
) -> list[np.ndarray]:
    """Run a model as it is and in plain operations; answers differ by `quanta` at most."""
    want, got = answers(model, inputs), answers(plain(model, inputs), inputs)
    for one, other in zip(want, got, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert np.abs(one.astype(np.float64) - other).max() <= quanta
    return want


def whole(kind: type, *shape: int) -> np.ndarray:
    bounds = np.iinfo(kind)
    return RANDOM.integers(bounds.min, bounds.max, shape, dtype=kind, endpoint=True)


def halves(*shape: int) -> np.ndarray:
    """Values of which many lie just between two bytes, and some out of range."""
    return (RANDOM.integers(-600, 600, shape) / 2).astype(np.float32)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
def test_halves_round_to_even_and_the_rest_saturates(kind: type) -> None:
    x = halves(64) * (np.iinfo(kind).max // 100)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(1), "z": kind(3)}
    kinds = {"q": helper.np_dtype_to_tensor_dtype(np.dtype(kind)), "y": TensorProto.FLOAT}
    (q, _) = compared(model_of(nodes, {"x": x}, kinds, constants, opset=21), {"x": x})
    assert q.min() == np.iinfo(kind).min  # the case has values out of range


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_and_zero_points_along_an_axis(axis: int) -> None:
    x = halves(3, 4, 5)
    count = x.shape[axis]
    constants = {
        "s": RANDOM.uniform(0.5, 2, count).astype(np.float32),
        "z": whole(np.int8, count),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis),
    ]
    kinds = {"q": TensorProto.INT8, "y": TensorProto.FLOAT}
    compared(model_of(nodes, {"x": x}, kinds, constants), {"x": x})


def test_scales_of_the_call_under_any_name() -> None:
    inputs = {"x": halves(1, 3, 4, 2), "y_scale": np.array([1, 2, 0.5], np.float32)}
    inputs["y_zero"] = whole(np.uint8, 3)
    node = helper.make_node("QuantizeLinear", list(inputs), ["y"])
    compared(model_of([node], inputs, {"y": TensorProto.UINT8}, {}, opset=21), inputs)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_and_zero_points_of_blocks(axis: int) -> None:
    inputs = {"x": halves(2, 4, 6)}
    shape = [size // 2 if place == axis % 3 else size for place, size in enumerate((2, 4, 6))]
    inputs["s"] = RANDOM.uniform(0.5, 2, shape).astype(np.float32)
    inputs["z"] = whole(np.int8, *shape)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis, block_size=2),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis, block_size=2),
    ]
    kinds = {"q": TensorProto.INT8, "y": TensorProto.FLOAT}
    compared(model_of(nodes, inputs, kinds, {}, opset=21), inputs)


@pytest.mark.parametrize(
    ("left", "right"), [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)]
)
def test_integer_products_are_exact(left: type, right: type) -> None:
    a, b = whole(left, 2, 5, 700), whole(right, 700, 6)
    nodes = [helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])]
    constants = {"b": b, "az": left(7), "bz": right(5)}
    model = model_of(nodes, {"a": a}, {"y": TensorProto.INT32}, constants)
    (want,) = compared(model, {"a": a})
    wide = (a.astype(np.int64) - 7) @ (b.astype(np.int64) - 5)
    assert np.array_equal(want, wide)


@pytest.mark.parametrize("channels", [3, 600])
def test_integer_convolutions_are_exact(channels: int) -> None:
    x, w = whole(np.uint8, 1, channels, 4, 4), whole(np.uint8, 2, channels, 3, 3)
    nodes = [
        helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1, 1, 1, 1]),
    ]
    constants = {"w": w, "xz": np.uint8(9), "wz": np.uint8(128)}
    model = model_of(nodes, {"x": x}, {"y": TensorProto.INT32}, constants)
    (want,) = answers(model, {"x": x})
    # onnxruntime convolves no f64, which the wide case is in.
    (got,) = ReferenceEvaluator(plain(model, {"x": x})).run(None, {"x": x})
    assert np.array_equal(got, want)


def test_a_quantised_product_with_a_scale_a_column() -> None:
    a, b = whole(np.uint8, 3, 40), whole(np.int8, 40, 6)
    constants = {"b": b, "as": np.float32(0.02), "az": np.uint8(130)}
    constants |= {"bs": RANDOM.uniform(0.01, 0.03, 6).astype(np.float32)}
    constants |= {"bz": np.zeros(6, np.int8), "ys": np.float32(0.11), "yz": np.uint8(120)}
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    nodes = [helper.make_node("QLinearMatMul", names, ["y"])]
    model = model_of(nodes, {"a": a}, {"y": TensorProto.UINT8}, constants)
    compared(model, {"a": a}, quanta=1)


@pytest.mark.parametrize("bias", [True, False])
def test_a_quantised_convolution_with_a_scale_a_channel(bias: bool) -> None:
    x = whole(np.uint8, 1, 8, 7, 7)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(110), "w": whole(np.int8, 6, 4, 3, 3)}
    constants |= {"ws": RANDOM.uniform(0.01, 0.03, 6).astype(np.float32)}
    constants |= {"wz": np.zeros(6, np.int8), "ys": np.float32(0.3), "yz": np.uint8(99)}
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    if bias:
        constants["b"] = RANDOM.integers(-9000, 9000, 6).astype(np.int32)
        names.append("b")
    nodes = [helper.make_node("QLinearConv", names, ["y"], group=2, pads=[1, 1, 1, 1])]
    model = model_of(nodes, {"x": x}, {"y": TensorProto.UINT8}, constants)
    compared(model, {"x": x}, quanta=1)


@pytest.mark.parametrize("low", [-3.0, 0.5, 0.0])
def test_scales_worked_out_from_the_values(low: float) -> None:
    x = (RANDOM.uniform(low, low + (4 if low else 0), (4, 9))).astype(np.float32)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    kinds = {"q": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8}
    kinds["y"] = TensorProto.FLOAT
    compared(model_of(nodes, {"x": x}, kinds, {}), {"x": x})


def test_quantised_models_reach_stablehlo_and_their_answers_may_be_a_step_off(
    tmp_path: Path,
) -> None:
    x = RANDOM.standard_normal((1, 4, 8, 8)).astype(np.float32)
    constants = {"s": np.float32(0.02), "z": np.uint8(128), "w": whole(np.int8, 8, 4, 3, 3)}
    constants |= {"ws": RANDOM.uniform(0.01, 0.03, 8).astype(np.float32), "wz": np.zeros(8, "i1")}
    constants |= {"ys": np.float32(0.2), "yz": np.uint8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        helper.make_node("Conv", ["d", "dw"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    model = model_of(nodes, {"x": x}, {"y": TensorProto.UINT8}, constants)
    program = export(model, (x,))
    assert program.info.dialect is Dialect.STABLEHLO
    (call,) = program.golden.calls
    assert len(call.within) == 1
    assert 1 <= call.within[0] <= 0.02 * 255 + 4
    path = tmp_path / "m.vmfb"
    compile(program, "cpu", CompileOptions(output=path, cache=False, check=False))
    result = check_golden(path, program.golden)
    assert result.ok
    assert result.max_abs <= 1
