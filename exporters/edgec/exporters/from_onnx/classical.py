"""ONNX' operations for classical models (`ai.onnx.ml`) in its usual ones: linear models above all.

scikit-learn's, XGBoost's and LightGBM's models come as these.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx import optimisers, support_vectors
from edgec.exporters.from_onnx.encoders import imputer, label_encoder, one_hot_encoder
from edgec.exporters.from_onnx.rewriting import Rewriting
from edgec.exporters.from_onnx.trees import (
    Forest,
    aggregated,
    forest_of_keys,
    forest_of_places,
    transformed,
)

__all__ = ["DOMAIN", "is_classical", "without_classical"]

DOMAIN = "ai.onnx.ml"
_OPSET = 17
"""Of ONNX' usual operations, for a model that has none."""


def is_classical(node: Any) -> bool:
    """Whether a node is of one of these domains: of classical models, or of training."""
    return node.domain in _RULES_OF


def without_classical(model: Any) -> Any:
    """The model with these operations replaced where a rule is known; it is changed.

    Args:
        model: an `onnx.ModelProto`, its shapes inferred.
    """
    if not any(opset.domain in ("", "ai.onnx") for opset in model.opset_import):
        from onnx import helper

        model.opset_import.append(helper.make_opsetid("", _OPSET))
    work = Rewriting(model)
    for node in model.graph.node:
        rule = _RULES_OF.get(node.domain, {}).get(node.op_type)
        before = len(work.nodes)
        if rule is None or not rule(work, node):
            del work.nodes[before:]
            work.nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(work.nodes)
    return model


def _extract(work: Rewriting, node: Any) -> bool:
    """Some of the last axis; of a list, as the one row of a matrix."""
    shape = work.shapes.get(node.input[0])
    if not shape:
        return False
    places = work.reshape(node.input[1], [-1])
    value = work.reshape(node.input[0], [1, -1]) if len(shape) == 1 else node.input[0]
    axis = max(len(shape) - 1, 1)
    work.node("Gather", value, places, output=node.output[0], axis=axis)
    return True


def _scaler(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    numbers = [
        np.array(given.get(name, [d]), np.float32) for name, d in (("offset", 0), ("scale", 1))
    ]
    moved = work.node("Sub", _single(work, node.input[0]), work.constant(numbers[0]))
    work.node("Mul", moved, work.constant(numbers[1]), output=node.output[0])
    return True


def _binarizer(work: Rewriting, node: Any) -> bool:
    bound = work.number(work.attributes(node).get("threshold", 0.0))
    value, kind = node.input[0], work.kinds.get(node.input[0])
    if kind is None:
        return False
    from onnx import helper

    above = work.node("Greater", _single(work, value), bound)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    work.node("Cast", above, output=node.output[0], to=to)
    return True


def _normalizer(work: Rewriting, node: Any) -> bool:
    kind = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[
        work.attributes(node).get("norm", "MAX")
    ]
    value = _single(work, node.input[0])
    size = work.node(kind, value, axes=[-1]) if work.versions.get("", 0) < 18 else ""
    size = size or work.node(kind, value, work.numbers(-1))
    none = work.node("Equal", size, work.number(0))
    by = work.node("Where", none, work.number(1), size)
    work.node("Div", value, by, output=node.output[0])
    return True


def _linear_regressor(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    if given.get("post_transform", "NONE") != "NONE":
        return False
    score = _linear(work, node.input[0], given, int(given.get("targets", 1)))
    work.node("Identity", score, output=node.output[0])
    return True


def _linear_classifier(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    labels = given.get("classlabels_ints")
    if not labels or len(given.get("intercepts", labels)) != len(labels):
        return False
    score = _linear(work, node.input[0], given, len(labels))
    return _classified(work, node, score, labels, given.get("post_transform", "NONE"))


def _linear(work: Rewriting, value: str, given: Mapping[str, Any], count: int) -> str:
    weights = np.array(given["coefficients"], np.float32).reshape(count, -1).T
    score = work.node("MatMul", _single(work, value), work.constant(weights))
    bias = np.array(given.get("intercepts", [0] * count), np.float32)
    return work.node("Add", score, work.constant(bias))


def _classified(
    work: Rewriting, node: Any, score: str, labels: Sequence[int], transform: str
) -> bool:
    """The label of the largest score, and the scores as probabilities."""
    best = work.node("ArgMax", score, axis=1, keepdims=0)
    work.node("Gather", work.constant(np.array(labels, np.int64)), best, output=node.output[0])
    return transformed(work, score, transform, node.output[1])


def _tree_regressor(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    forest = forest_of_keys(given, "target", int(given.get("n_targets", 1)))
    how = given.get("aggregate_function", "SUM")
    total = _total(work, node.input[0], forest, given, how=how)
    if total is None:
        return False
    return transformed(work, total, given.get("post_transform", "NONE"), node.output[0])


def _tree_ensemble(work: Rewriting, node: Any) -> bool:
    """The newer form of all of them; its enumerations are numbers."""
    given = work.attributes(node)
    how = ("AVERAGE", "SUM", "MIN", "MAX")[int(given.get("aggregate_function", 1))]
    ways = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    total = _total(work, node.input[0], forest_of_places(given), {}, how=how)
    if total is None:
        return False
    return transformed(work, total, ways[int(given.get("post_transform", 0))], node.output[0])


def _tree_classifier(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    labels = given.get("classlabels_int64s")
    transform = given.get("post_transform", "NONE")
    if not labels:
        return False
    one = len(labels) == 2 and len(set(given["class_ids"])) == 1
    if not one and min(given["class_weights"]) < 0 and not _all_told(given, len(labels)):
        return False  # a class that no leaf speaks of is not the largest, be the others negative
    forest = forest_of_keys(given, "class", len(labels))
    total = _total(work, node.input[0], forest, given)
    if total is None:
        return False
    if one:  # of two classes only the weights of one are told
        column = work.node("Gather", total, work.numbers(given["class_ids"][0]), axis=1)
        positive = min(given["class_weights"]) >= 0
        if transform == "LOGISTIC":
            other = work.node("Neg", column)
        elif transform == "NONE" and positive:
            other = work.node("Sub", work.number(1), column)
        else:
            return False
        total = work.node("Concat", other, column, axis=1)
    return _classified(work, node, total, labels, transform)


def _all_told(given: Mapping[str, Any], count: int) -> bool:
    """Whether each class has a tree whose every leaf speaks of it."""
    keys = zip(given["nodes_treeids"], given["nodes_modes"], strict=True)
    leaves = Counter(tree for tree, mode in keys if mode in ("LEAF", b"LEAF"))
    told = Counter(zip(given["class_ids"], given["class_treeids"], strict=True))
    found = {number for (number, tree), times in told.items() if times == leaves[tree]}
    return len(found) == count


def _total(
    work: Rewriting, value: str, forest: Forest, given: Mapping[str, Any], *, how: str = "SUM"
) -> str | None:
    """What the trees say together, on top of what is said without any."""
    wide = forest.bounds.dtype == np.float64 and work.kinds.get(value) == np.float64
    rows = value if wide else _single(work, value)
    work.shapes.setdefault(rows, work.shapes.get(value, ()))
    total = aggregated(work, rows, forest, how=how)
    base = given.get("base_values")
    if total is None or not base:
        return total
    return work.node("Add", total, work.constant(np.array(base, np.float32)))


def _single(work: Rewriting, value: str) -> str:
    """The value in f32, which these operations compute in."""
    if work.kinds.get(value) == np.float32:
        return value
    from onnx import TensorProto

    return work.node("Cast", value, to=TensorProto.FLOAT)


_RULES: Mapping[str, Callable[[Rewriting, Any], bool]] = {
    "ArrayFeatureExtractor": _extract,
    "Binarizer": _binarizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": support_vectors.classifier,
    "SVMRegressor": support_vectors.regressor,
    "Scaler": _scaler,
    "TreeEnsemble": _tree_ensemble,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}

_RULES_OF: Mapping[str, Mapping[str, Callable[[Rewriting, Any], bool]]] = {
    DOMAIN: _RULES,
    optimisers.DOMAIN: optimisers.RULES,
}
