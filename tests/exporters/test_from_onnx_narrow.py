"""8-bit floats and 4-bit numbers of ONNX: taken and given as bytes, rounded to the nearest."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from edgec.exporters import export
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]

NUMBERS = np.array(
    [0, -0.0, 0.3, -0.3, 0.47, 1e-4, -1e-7, 17, 448, 464, 500, -1e6, 5.5, np.nan, np.inf, 2.5, -6],
    np.float32,
)
TYPES = {
    "e4m3": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "e5m2": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    "i4": (TensorProto.INT4, ml_dtypes.int4),
}


def test_casts_to_narrow_types_and_from_them(replay: Replay) -> None:
    whole = np.array([-9, -8, -1, 0, 3, 7, 8, 20], np.float32)
    given = {"e4m3": NUMBERS, "e5m2": NUMBERS, "i4": whole}
    node, value = helper.make_node, helper.make_tensor_value_info
    nodes, inputs, outputs, arrays = [], [], [], []
    for name, (number, dtype) in TYPES.items():
        data = given[name]
        with np.errstate(invalid="ignore"):
            bits = np.arange(8, dtype=np.uint8).view(dtype) if "e" in name else np.arange(8) - 4
        narrow = np.asarray(bits).astype(dtype)
        nodes += [
            node("Cast", [f"x_{name}"], [f"y_{name}"], to=number),
            node("Cast", [f"n_{name}"], [f"w_{name}"], to=TensorProto.FLOAT),
        ]
        inputs += [
            value(f"x_{name}", TensorProto.FLOAT, data.shape),
            value(f"n_{name}", number, narrow.shape),
        ]
        outputs += [
            value(f"y_{name}", number, data.shape),
            value(f"w_{name}", TensorProto.FLOAT, narrow.shape),
        ]
        arrays += [data, narrow]
    graph = helper.make_graph(nodes, "casts", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    program = export(model, tuple(arrays))
    assert program.golden is not None
    (call,) = program.golden.calls
    for index, (name, (_, dtype)) in enumerate(TYPES.items()):
        assert call.outputs[2 * index].dtype == (np.int8 if name == "i4" else np.uint8)
        if name != "i4":
            with np.errstate(invalid="ignore"):
                usual = np.clip(NUMBERS, *(float(f(dtype)) for f in (_low, _high)))
                expected = usual.astype(dtype).view(np.uint8)
            settled = ~np.isnan(NUMBERS)
            np.testing.assert_array_equal(call.outputs[2 * index][settled], expected[settled])
    assert replay(program) == 0


def test_numbers_become_powers_of_two_as_onnx_has_them() -> None:
    from edgec.exporters.from_onnx.narrow_codes import codes_of

    random = np.random.default_rng(2)
    powers = np.exp2(np.arange(-126, 128)).astype(np.float32)
    anywhere = random.standard_normal(500) * np.exp2(random.integers(-126, 127, 500))
    ends = np.array([0, -0.0, 1e-39, 2**-127, 3.4e38, np.inf, -np.inf, -2, -1.1], np.float32)
    numbers = np.concatenate([powers, 1.5 * powers[:-1], anywhere.astype(np.float32), ends])
    sizes = np.abs(numbers)[:, None]
    for saturate in (False, True):
        for rounding in ("up", "down", "nearest"):
            codes = codes_of(
                np.dtype(ml_dtypes.float8_e8m0fnu), saturate=saturate, rounding=rounding
            )
            assert codes is not None
            passed = (sizes > codes.above).sum(1) + (sizes >= codes.from_there).sum(1)
            expected = onnx.numpy_helper.to_float8e8m0(numbers, saturate, rounding)
            np.testing.assert_array_equal(codes.positive[passed], expected.view(np.uint8))


def test_a_zero_point_makes_a_zero_of_four_bits_positive(replay: Replay) -> None:
    kind = TensorProto.FLOAT4E2M1
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["y"])],
        "four",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", kind, [4])],
        [
            helper.make_tensor("step", TensorProto.FLOAT, [], [2.0]),
            helper.make_tensor("zero", kind, [], [0.0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    program = export(model, (np.array([-0.0, 1, -5, 30], np.float32),))
    assert program.golden is not None
    assert program.golden.calls[0].outputs[0].tolist() == [0, 1, 12, 7]
    assert replay(program) == 0


def _low(dtype: type) -> float:
    return float(ml_dtypes.finfo(dtype).min)


def _high(dtype: type) -> float:
    return float(ml_dtypes.finfo(dtype).max)


def test_a_model_without_narrow_types_is_left_alone() -> None:
    from edgec.exporters.from_onnx.narrow import widened

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "plain",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [2])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [2])],
    )
    model: onnx.ModelProto = helper.make_model(graph)
    assert widened(model) is model
