"""Operations that no importer takes, written in others: compared with onnx.reference."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.toolchain.program import Program

RANDOM = np.random.default_rng(5)

Replay = Callable[[Program], float]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_a_recurrent_layer_that_runs_both_ways(replay: Replay) -> None:
    weights = {"w": normal(2, 16, 3), "r": normal(2, 16, 4), "b": normal(2, 32)}
    weights |= {"h": normal(2, 2, 4), "c": normal(2, 2, 4)}
    node = helper.make_node(
        "LSTM",
        ["x", "w", "r", "b", "", "h", "c"],
        ["y", "last", "state"],
        direction="bidirectional",
        hidden_size=4,
    )
    inputs = {"x": normal(5, 2, 3)}
    model = model_of([node], inputs, ["y", "last", "state"], weights, 17)
    assert replay(export(model, tuple(inputs.values()))) < 1e-5


def test_products_of_all_before_and_all_after(replay: Replay) -> None:
    ways = [(exclusive, reverse) for exclusive in (0, 1) for reverse in (0, 1)]
    nodes = [
        helper.make_node("CumProd", ["x", "axis"], [f"y{e}{r}"], exclusive=e, reverse=r)
        for e, r in ways
    ]
    inputs = {"x": normal(2, 5, 3)}
    outputs = [f"y{e}{r}" for e, r in ways]
    model = model_of(nodes, inputs, outputs, {"axis": np.array(1, np.int64)}, 26)
    assert replay(export(model, tuple(inputs.values()))) < 1e-5


def test_a_determinant_with_a_zero_in_the_way_of_elimination(replay: Replay) -> None:
    x = normal(2, 2, 4, 4)
    x[0, 0, 0, 0] = 0
    x[0, 1, :, 0] = 0  # singular
    x[1, 0] = np.eye(4)[[1, 0, 3, 2]]
    model = model_of([helper.make_node("Det", ["x"], ["y"])], {"x": x}, ["y"], {}, 22)
    program = export(model, (x,))
    assert replay(program) < 1e-5
    assert program.golden is not None
    (call,) = program.golden.calls
    np.testing.assert_allclose(call.outputs[0], np.linalg.det(x), rtol=1e-4, atol=1e-6)


def test_a_transposed_convolution_with_pads_of_two_widths(replay: Replay) -> None:
    ways: dict[str, dict[str, object]] = {
        "upper": {"auto_pad": "SAME_UPPER"},
        "lower": {"auto_pad": "SAME_LOWER"},
        "given": {"pads": [0, 1, 2, 0], "output_padding": [1, 0], "dilations": [2, 1]},
    }
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], [name], strides=[2, 1], **way)
        for name, way in ways.items()
    ]
    inputs = {"x": normal(1, 2, 4, 5)}
    model = model_of(nodes, inputs, list(ways), {"w": normal(2, 3, 3, 4)}, 17)
    assert replay(export(model, tuple(inputs.values()))) < 1e-5


def test_elements_scattered_where_the_least_or_the_largest_stays(replay: Replay) -> None:
    nodes = [
        helper.make_node("ScatterElements", ["x", "at", "new"], [how], axis=1, reduction=how)
        for how in ("min", "max")
    ]
    inputs = {"x": normal(2, 5, 3), "new": normal(2, 4, 2)}
    at = np.array([[[0, 4], [-1, 4], [0, 1], [-5, 2]]] * 2, np.int64)
    model = model_of(nodes, inputs, ["min", "max"], {"at": at}, 18)
    assert replay(export(model, tuple(inputs.values()))) == 0


def test_a_remainder_has_the_sign_of_the_divisor(replay: Replay) -> None:
    nodes = [
        helper.make_node("Mod", ["x", "by"], ["rest"]),
        helper.make_node("Cast", ["rest"], ["y"], to=TensorProto.FLOAT),
    ]
    numbers = np.array([-7, -4, -1, 0, 1, 4, 7], np.int32)
    inputs = {"x": np.tile(numbers, 2), "by": np.repeat(np.array([4, -4], np.int32), 7)}
    model = model_of(nodes, inputs, ["y"], {}, 17)
    assert replay(export(model, tuple(inputs.values()))) == 0


def test_rows_into_a_cache_that_goes_round(replay: Replay) -> None:
    node = helper.make_node("TensorScatter", ["cache", "rows", "at"], ["y"], mode="circular")
    at = np.array([3, 1], np.int64)
    inputs = {"cache": normal(2, 3, 4, 5), "rows": normal(2, 3, 2, 5), "at": at}
    model = model_of([node], inputs, ["y"], {}, 24)
    assert replay(export(model, tuple(inputs.values()))) == 0


def test_a_norm_of_zero_gives_zeros(replay: Replay) -> None:
    nodes = [helper.make_node("LpNormalization", ["x"], [f"y{p}"], axis=1, p=p) for p in (1, 2)]
    x = normal(3, 4)
    x[1] = 0
    model = model_of(nodes, {"x": x}, ["y1", "y2"], {}, 22)
    model.ir_version = 10  # which onnxruntime takes: onnx.reference divides by zero
    assert replay(export(model, (x,))) < 1e-6


def test_values_back_at_the_places_of_their_maxima(replay: Replay) -> None:
    ways: dict[str, list[str]] = {"plain": [], "wider": ["size"]}
    nodes = [
        helper.make_node("MaxUnpool", ["x", "at", *more], [n], kernel_shape=[2, 2], strides=[2, 2])
        for n, more in ways.items()
    ]
    inputs = {"x": normal(1, 2, 2, 2), "at": np.array([[[[0, 3], [9, 14]], [[17, 18], [28, 31]]]])}
    model = model_of(nodes, inputs, list(ways), {"size": np.array([1, 2, 5, 6])}, 22)
    program = export(model, tuple(inputs.values()))
    assert replay(program) == 0
