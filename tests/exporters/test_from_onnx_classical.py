"""Classical models of ONNX (`ai.onnx.ml`), compared with onnxruntime and with trees walked here."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.runtime import Golden
from edgec.runtime.errors import UnsupportedOp
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
VECTORS = np.random.default_rng(3).uniform(-1, 1, (5, 3)).astype(np.float32)
ROWS = np.random.default_rng(4).uniform(-1, 1, (6, 3)).astype(np.float32)


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
        node("Neg", ["odds"], ["against"]),
        node("ArrayFeatureExtractor", ["against", "last"], ["column"], domain=domain),
        node("Exp", ["column"], ["powers"]),
        node("ArrayFeatureExtractor", ["powers", "first"], ["behind"], domain=domain),
    ]
    rows = np.random.default_rng(0).uniform(-1, 1, (16, 3)).astype(np.float32)
    outputs = [
        value("r", TensorProto.FLOAT, [16, 1]),
        value("label", TensorProto.INT64, [16]),
        value("scores", TensorProto.FLOAT, [16, 3]),
        value("chosen", TensorProto.INT64, [16]),
        value("shares", TensorProto.FLOAT, [16, 2]),
        value("named", TensorProto.INT64, [1, 16]),
        value("behind", TensorProto.FLOAT, [16, 1]),  # of whose operand ONNX infers no shape
    ]
    inputs = [value("x", TensorProto.FLOAT, rows.shape)]
    constants = [
        numpy_helper.from_array(np.array(numbers, np.int64), name)
        for name, numbers in {"names": [30, 10], "first": [0], "last": [1]}.items()
    ]
    graph = helper.make_graph(nodes, "ml", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    assert replay(export(model, (rows,))) < 1e-6


def test_a_forest_whose_nodes_ask_in_all_ways_and_whose_rows_miss_numbers(replay: Replay) -> None:
    random = np.random.default_rng(1)
    leaves = random.standard_normal(8).astype(np.float32)
    bounds = np.array([0.1, -0.3, 2, 0.25, 0.5, 0, 0], np.float32)
    sets = np.array([1, 3, np.nan, np.nan], np.float32)  # of the last two nodes: {1, 3} and {}
    modes = np.array([0, 1, 2, 3, 5, 6, 6], np.uint8)
    tracks = [0, 1, 0, 1, 0, 0, 1]
    features = [0, 1, 2, 0, 1, 2, 2]
    # A whole tree of three levels: nodes 0; 1 2; 3 4 5 6; eight leaves.
    below = {"true": [1, 3, 5, 0, 2, 4, 6], "false": [2, 4, 6, 1, 3, 5, 7]}
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        tree_roots=[0],
        nodes_splits=numpy_helper.from_array(bounds),
        nodes_modes=numpy_helper.from_array(modes),
        nodes_featureids=features,
        nodes_missing_value_tracks_true=tracks,
        membership_values=numpy_helper.from_array(sets),
        leaf_targetids=[0] * 8,
        leaf_weights=numpy_helper.from_array(leaves),
        post_transform=2,
        **{f"nodes_{way}nodeids": places for way, places in below.items()},
        **{f"nodes_{way}leafs": [0] * 3 + [1] * 4 for way in below},
    )
    rows = random.uniform(-1, 1, (64, 3)).astype(np.float32)
    rows[:, 2] = random.integers(0, 5, 64)
    rows[random.random(rows.shape) < 0.1] = np.nan
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "forest",
        [value("x", TensorProto.FLOAT, rows.shape)],
        [value("y", TensorProto.FLOAT, [64, 1])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5)], ir_version=10
    )
    members = {5: (1, 3), 6: ()}
    asks = [np.less_equal, np.less, np.greater_equal, np.greater, None, np.not_equal]

    def walked(row: np.ndarray) -> float:
        at = 0
        for _ in range(3):
            x = row[features[at]]
            ask = asks[modes[at]] if modes[at] < 6 else None
            yes = x in members[at] if ask is None else bool(ask(x, bounds[at]))
            yes |= bool(np.isnan(x) and tracks[at])
            at = below["true" if yes else "false"][at]
        return 1 / (1 + np.exp(-leaves[at]))

    program = export(model, (rows,))
    assert program.golden is not None
    program = replace(
        program,
        golden=Golden(
            calls=(
                replace(
                    program.golden.calls[0],
                    outputs=(np.array([[walked(row)] for row in rows], np.float32),),
                ),
            )
        ),
    )
    assert replay(program) < 1e-6


@pytest.mark.parametrize("words", [False, True])
def test_answers_in_words_are_the_numbers_that_they_stand_for(
    replay: Replay, caplog: pytest.LogCaptureFixture, words: bool
) -> None:
    """As skl2onnx ends a classifier: labels that may be text, and dictionaries by class."""
    domain, value = "ai.onnx.ml", helper.make_tensor_value_info
    classes = ["one", "two", "six"] if words else [5, 7, 9]
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["best", "odds"],
        domain=domain,
        coefficients=[0.5, -1, 2, -0.5, 1, -2, 1, 1, 1],
        intercepts=[0.1, -0.1, 0],
        post_transform="SOFTMAX",
        **{"classlabels_strings" if words else "classlabels_ints": classes},
    )
    names = {"classlabels_strings" if words else "classlabels_int64s": classes}
    nodes = [
        node,
        helper.make_node("Identity", ["best"], ["label"]),
        helper.make_node("ZipMap", ["odds"], ["named"], domain=domain, **names),
    ]
    kind = TensorProto.STRING if words else TensorProto.INT64
    odds = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    pairs = helper.make_sequence_type_proto(helper.make_map_type_proto(kind, odds))
    outputs = [value("label", kind, [None]), helper.make_value_info("named", pairs)]
    graph = helper.make_graph(nodes, "ml", [value("x", TensorProto.FLOAT, [None, 3])], outputs)
    opsets = [helper.make_opsetid("", 9), helper.make_opsetid(domain, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=4)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    label, named = session.run(None, {"x": ROWS})
    program = export(model, (ROWS,))
    assert "named of main is a matrix with a column a class" in caplog.text
    assert ("(0 one, 1 two, 2 six), in the place of its name" in caplog.text) == words
    assert program.golden is not None
    ours = program.golden.calls[0].outputs
    expected = [classes.index(each) for each in label] if words else label
    np.testing.assert_array_equal(ours[0], expected)
    np.testing.assert_array_equal(ours[1], [[row[each] for each in classes] for row in named])
    assert replay(program) < 1e-6
    assert model.graph.node[2].op_type == "ZipMap"


def test_an_output_that_is_no_tensor_of_numbers_is_refused_by_name() -> None:
    value = helper.make_tensor_value_info
    node = helper.make_node("StringNormalizer", ["x"], ["y"])
    graph = helper.make_graph(
        [node],
        "words",
        [value("x", TensorProto.STRING, [2])],
        [value("y", TensorProto.STRING, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(UnsupportedOp, match="the output y of the model is no tensor of numbers"):
        export(model, ())


def test_a_binarizer(replay: Replay) -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "binarizer",
        [value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [4])],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    program = export(model, (np.array([-1, 0.5, 0.75, np.nan], np.float32),))
    assert program.golden is not None
    np.testing.assert_array_equal(program.golden.calls[0].outputs[0], [0, 0, 1, 0])
    assert replay(program) == 0


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(
    ("kind", "attributes", "x"),
    [
        (
            "Imputer",
            {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")},
            np.array([[np.nan, 5, 6], [7, np.nan, np.nan]], np.float32),
        ),
        (
            "OneHotEncoder",
            {"cats_int64s": [3, 1, 7]},
            np.array([1, 7, 5, 3], np.int64),
        ),
        (
            "LabelEncoder",
            {"keys_int64s": [3, 1, 7], "values_floats": [0.5, 2.5, -1], "default_float": 9.0},
            np.array([[1, 7], [5, 3]], np.int64),
        ),
        *(
            (
                "SVMRegressor",
                {
                    "kernel_type": kernel,
                    "kernel_params": [0.3, 0.2, 3.0],
                    "support_vectors": VECTORS.ravel().tolist(),
                    "n_supports": 5,
                    "coefficients": [0.5, -1.0, 0.25, 1.0, -0.75],
                    "rho": [0.1],
                    "one_class": one_class,
                },
                ROWS,
            )
            for kernel, one_class in (
                ("RBF", 0),
                ("POLY", 0),
                ("SIGMOID", 0),
                ("LINEAR", 1),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_encoders_and_support_vectors_give_what_onnxruntime_does(
    kind: str, attributes: Mapping[str, Any], x: np.ndarray, replay: Replay
) -> None:
    node = helper.make_node(kind, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "one", [given], [result])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    program = export(model, (x,))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert program.golden is not None
    np.testing.assert_array_equal(
        program.golden.calls[0].outputs[0], session.run(None, {"x": x})[0]
    )
    assert replay(program) < 1e-5


@pytest.mark.parametrize(
    ("counts", "kernel", "transform"),
    [((2, 1, 3), "RBF", "NONE"), ((1, 2, 2, 3), "POLY", "LOGISTIC"), ((2, 3), "SIGMOID", "NONE")],
)
def test_support_vectors_choose_the_class_that_onnxruntime_does(
    counts: tuple[int, ...], kernel: str, transform: str, replay: Replay
) -> None:
    random, classes = np.random.default_rng(18), len(counts)
    model = _support_vector_classifier(
        kernel_type=kernel,
        kernel_params=[1.5, 0.2, 3.0],
        coefficients=random.standard_normal(sum(counts) * (classes - 1)).tolist(),
        support_vectors=random.uniform(-1, 1, 3 * sum(counts)).tolist(),
        vectors_per_class=list(counts),
        rho=random.uniform(-0.1, 0.1, classes * (classes - 1) // 2).tolist(),
        classlabels_ints=[7 + 3 * number for number in range(classes)],
        post_transform=transform,
    )
    program = export(model, (ROWS,))
    labels, scores = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": ROWS})
    assert len(set(labels)) > 1
    assert program.golden is not None
    np.testing.assert_array_equal(program.golden.calls[0].outputs[0], labels)
    np.testing.assert_allclose(program.golden.calls[0].outputs[1], scores, atol=1e-6)
    assert replay(program) < 1e-5


def test_probabilities_of_support_vectors_are_refused_by_name() -> None:
    model = _support_vector_classifier(
        kernel_type="LINEAR",
        coefficients=[1.0, -1.0],
        support_vectors=VECTORS[:2].ravel().tolist(),
        vectors_per_class=[1, 1],
        rho=[0.1],
        prob_a=[1.0],
        prob_b=[0.5],
        classlabels_ints=[0, 1],
    )
    with pytest.raises(UnsupportedOp, match="SVMClassifier"):
        export(model, (ROWS,))


def _support_vector_classifier(**attributes: Any) -> Any:
    node = helper.make_node("SVMClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", **attributes)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ROWS.shape)
    results = [
        helper.make_tensor_value_info("l", TensorProto.INT64, None),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph([node], "one", [given], results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
