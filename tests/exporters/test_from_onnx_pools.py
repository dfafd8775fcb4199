"""Pooling of ONNX in forms that the importer gets wrong or refuses: compared with onnxruntime."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from edgec.exporters import export
from edgec.toolchain.program import Program

RANDOM = np.random.default_rng(3)


def test_dilations_ends_padding_and_places(replay: Callable[[Program], float]) -> None:
    node = helper.make_node
    window = {"kernel_shape": [2, 3], "strides": [3, 2]}
    beyond = {**window, "ceil_mode": 1, "pads": [1, 0, 0, 1]}
    nodes = [
        node("AveragePool", ["x"], ["apart"], **window, dilations=[2, 2], pads=[0, 1, 1, 0]),
        node("AveragePool", ["x"], ["ends"], **beyond, count_include_pad=1),
        node("AveragePool", ["room"], ["deep"], kernel_shape=[2, 3, 2], strides=[2, 1, 1]),
        node("MaxPool", ["x"], ["most", "place"], **beyond, storage_order=1),
    ]
    given = {
        "x": RANDOM.standard_normal((2, 2, 7, 6)).astype(np.float32),
        "room": RANDOM.standard_normal((1, 2, 4, 5, 3)).astype(np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "pools",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in given.items()],
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name == "place" else TensorProto.FLOAT, None
            )
            for each in nodes
            for name in each.output
        ],
    )
    opsets = [helper.make_opsetid("", 22)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    program = export(model, tuple(given.values()))
    assert program.info.dialect.value == "stablehlo"
    assert replay(program) < 1e-5
