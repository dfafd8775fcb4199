"""Classical models of ONNX (`ai.onnx.ml`): trees and linear models, compared with onnxruntime."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]

TREES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0],
    "nodes_values": [0.1, -0.3, 0, 0, 0, 0.25, 0, 0],
    "nodes_modes": ["BRANCH_LEQ"] * 2 + ["LEAF"] * 3 + ["BRANCH_LEQ"] + ["LEAF"] * 2,
    "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
}
LEAVES = {
    "treeids": [0, 0, 0, 1, 1],
    "nodeids": [2, 3, 4, 1, 2],
    "weights": [0.5, 1.0, 2.0, 0.25, 0.75],
}


def test_trees_and_linear_models(replay: Replay) -> None:
    node, value = helper.make_node, helper.make_tensor_value_info
    domain = "ai.onnx.ml"
    leaves = {f"class_{key}": found for key, found in LEAVES.items()}
    nodes = [
        node(
            "TreeEnsembleRegressor",
            ["x"],
            ["r"],
            domain=domain,
            n_targets=1,
            base_values=[0.5],
            **TREES,
            **{f"target_{key}": found for key, found in LEAVES.items()},
            target_ids=[0] * 5,
        ),
        node(
            "TreeEnsembleClassifier",
            ["x"],
            ["label", "scores"],
            domain=domain,
            classlabels_int64s=[5, 7, 9],
            class_ids=[0, 1, 2, 1, 0],
            **TREES,
            **leaves,
        ),
        node(
            "LinearClassifier",
            ["x"],
            ["chosen", "odds"],
            domain=domain,
            classlabels_ints=[0, 1],
            coefficients=[0.5, -1, 2, -0.5, 1, -2],
            intercepts=[0.1, -0.1],
            post_transform="SOFTMAX",
        ),
        node("Normalizer", ["odds"], ["shares"], domain=domain, norm="L2"),
        node("ArrayFeatureExtractor", ["names", "chosen"], ["named"], domain=domain),
    ]
    rows = np.random.default_rng(0).uniform(-1, 1, (16, 3)).astype(np.float32)
    outputs = [
        value("r", TensorProto.FLOAT, [16, 1]),
        value("label", TensorProto.INT64, [16]),
        value("scores", TensorProto.FLOAT, [16, 3]),
        value("chosen", TensorProto.INT64, [16]),
        value("shares", TensorProto.FLOAT, [16, 2]),
        value("named", TensorProto.INT64, [1, 16]),
    ]
    inputs = [value("x", TensorProto.FLOAT, rows.shape)]
    names = numpy_helper.from_array(np.array([30, 10], np.int64), "names")
    graph = helper.make_graph(nodes, "ml", inputs, outputs, [names])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    assert replay(export(model, (rows,))) < 1e-6
