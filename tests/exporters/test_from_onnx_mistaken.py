"""Forms of ONNX operations that the importer gets wrong: compared with onnxruntime."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.toolchain.program import Program

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_forms_that_the_importer_gets_wrong(replay: Callable[[Program], float]) -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    node = helper.make_node
    nodes = [
        node("MaxPool", ["image"], ["beyond"], **window),
        node("MaxPool", ["image"], ["aside"], **window, pads=[1, 0, 0, 1], dilations=[1, 2]),
        node("MeanVarianceNormalization", ["image"], ["even"], axes=[0, 1, 3]),
        node("ReverseSequence", ["rows", "ends"], ["back"], time_axis=0, batch_axis=1),
        node("Less", ["rows", "none"], ["below"]),
        node("ReduceMax", ["below", "axis"], ["any"], keepdims=0),
        node("ReduceMin", ["below", "axis"], ["all"], keepdims=0),
        node("Mod", ["number", "divisor"], ["rest"], fmod=1),
        node("Mod", ["whole", "step"], ["turn"]),
        node("LpPool", ["room"], ["norm"], kernel_shape=[2, 2, 2], p=3),
    ]
    endless = np.array([np.inf, -np.inf, np.inf, 2, -2], np.float32)
    constants = {"none": np.float32(0), "axis": np.array([1], np.int64), "divisor": endless}
    constants["step"] = np.array([4, -4, 3, -3, 5], np.int32)
    given = {
        "image": normal(1, 2, 6, 8),
        "rows": normal(4, 3),
        "ends": np.array([4, 1, 2], np.int64),
        "number": np.array([-3, 3, 0.5, -7, 7], np.float32),
        "whole": np.array([-7, 7, -3, 3, -1], np.int32),
        "room": normal(1, 2, 4, 4, 4),
    }
    kinds = {"any": TensorProto.BOOL, "all": TensorProto.BOOL, "turn": TensorProto.INT32}
    outputs = ["beyond", "aside", "even", "back", "any", "all", "rest", "turn", "norm"]
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
        ],
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    assert replay(export(model, tuple(given.values()))) < 1e-5


def test_forms_that_the_importer_has_no_end_or_pattern_for(
    replay: Callable[[Program], float],
) -> None:
    node = helper.make_node
    crop = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    nodes = [
        node("Pad", ["table", "around"], ["wrapped"], mode="wrap"),
        node("QuantizeLinear", ["table", "step", "middle"], ["short"]),
        node("Resize", ["image", "region", "", "sizes"], ["cut"], **crop, extrapolation_value=7.0),
        node("ReduceMax", ["nothing", "axis"], ["least"]),
    ]
    constants = {
        "around": np.array([1, 2, 3, 0], np.int64),
        "step": np.float32(1e-4),
        "middle": np.array(-7, np.int16),
        "region": np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32),
        "sizes": np.array([1, 1, 3, 3], np.int64),
    }
    given = {
        "table": normal(3, 4),
        "image": normal(1, 1, 4, 4),
        "nothing": np.zeros((2, 0, 4), np.int32),
        "axis": np.array([1], np.int64),
    }
    kinds = {"short": TensorProto.INT16, "least": TensorProto.INT32}
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
        ],
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None)
            for each in nodes
            for name in each.output
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    assert replay(export(model, tuple(given.values()))) < 1e-5
