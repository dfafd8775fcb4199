"""ONNX' operations for classical models (`ai.onnx.ml`) in its usual ones: linear models and trees.

scikit-learn's, XGBoost's and LightGBM's models come as these.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["DOMAIN", "without_classical"]

DOMAIN = "ai.onnx.ml"
_STEPS = 64
"""Levels of a tree; a deeper one is left as it is."""


def without_classical(model: Any) -> Any:
    """The model with these operations replaced where a rule is known; it is changed.

    Args:
        model: an `onnx.ModelProto`, its shapes inferred.
    """
    work = Rewriting(model)
    for node in model.graph.node:
        rule = _RULES.get(node.op_type) if node.domain == DOMAIN else None
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
    label, probabilities = node.output[0], node.output[1]
    best = work.node("ArgMax", score, axis=1, keepdims=0)
    work.node("Gather", work.constant(np.array(labels, np.int64)), best, output=label)
    if transform == "SOFTMAX":
        work.node("Softmax", score, output=probabilities, axis=1)
    elif transform == "LOGISTIC":
        work.node("Sigmoid", score, output=probabilities)
    elif transform == "NONE":
        work.node("Identity", score, output=probabilities)
    return transform in ("SOFTMAX", "LOGISTIC", "NONE")


def _tree_regressor(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    count = int(given.get("n_targets", 1))
    how = given.get("aggregate_function", "SUM")
    if given.get("post_transform", "NONE") != "NONE" or how not in ("SUM", "AVERAGE"):
        return False
    total = _trees(work, node.input[0], given, "target", count, mean=how == "AVERAGE")
    if total is None:
        return False
    work.node("Identity", total, output=node.output[0])
    return True


def _tree_classifier(work: Rewriting, node: Any) -> bool:
    given = work.attributes(node)
    labels = given.get("classlabels_int64s")
    transform = given.get("post_transform", "NONE")
    if not labels:
        return False
    one = len(labels) == 2 and len(set(given["class_ids"])) == 1
    if not one and min(given["class_weights"]) < 0 and not _all_told(given, len(labels)):
        return False  # a class that no leaf speaks of is not the largest, be the others negative
    total = _trees(work, node.input[0], given, "class", len(labels), mean=False)
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


def _trees(
    work: Rewriting, value: str, given: Mapping[str, Any], kind: str, count: int, *, mean: bool
) -> str | None:
    """The sum over all trees of the weights in the leaf that each row comes to."""
    shape = work.shapes.get(value)
    keys = list(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    place = {key: number for number, key in enumerate(keys)}
    modes = [m.decode() if isinstance(m, bytes) else m for m in given["nodes_modes"]]
    leaf = np.array([mode == "LEAF" for mode in modes])
    tests = {mode for mode in modes if mode != "LEAF"}
    test = {"BRANCH_LEQ": "LessOrEqual", "BRANCH_LT": "Less"}.get(next(iter(tests), "BRANCH_LEQ"))
    misses = any(given.get("nodes_missing_value_tracks_true", []))
    if shape is None or len(shape) != 2 or len(tests) > 1 or test is None or misses:
        return None
    following = [
        np.array(
            [
                number if leaf[number] else place[keys[number][0], target]
                for number, target in enumerate(given[f"nodes_{way}nodeids"])
            ],
            np.int64,
        )
        for way in ("true", "false")
    ]
    targets = {
        number for way in following for at, number in enumerate(way.tolist()) if at != number
    }
    roots = [number for number in range(len(keys)) if number not in targets]
    depth, level = 0, set(roots)
    while any(not leaf[number] for number in level):
        level = {int(way[number]) for number in level for way in following}
        depth += 1
    if depth > _STEPS:
        return None
    weights = np.zeros((len(keys), count), np.float32)
    of = zip(
        *(given[f"{kind}_{what}"] for what in ("treeids", "nodeids", "ids", "weights")), strict=True
    )
    for tree, inner, column, weight in of:
        weights[place[tree, inner], column] += weight / (len(roots) if mean else 1)
    feature, bound, *ways = (
        work.constant(np.asarray(table))
        for table in (
            np.array(given["nodes_featureids"], np.int64),
            np.array(given["nodes_values"], np.float32),
            *following,
        )
    )
    at = work.constant(np.tile(np.array(roots, np.int64), (shape[0], 1)))
    rows = _single(work, value)
    for _ in range(depth):
        found = work.node("GatherElements", rows, work.node("Gather", feature, at), axis=1)
        goes = work.node(test, found, work.node("Gather", bound, at))
        at = work.node("Where", goes, *(work.node("Gather", way, at) for way in ways))
    reached = work.node("Gather", work.constant(weights), at, axis=0)
    total = work.node("ReduceSum", reached, work.numbers(1), keepdims=0)
    base = given.get("base_values")
    return work.node("Add", total, work.constant(np.array(base, np.float32))) if base else total


def _single(work: Rewriting, value: str) -> str:
    """The value in f32, which these operations compute in."""
    if work.kinds.get(value) == np.float32:
        return value
    from onnx import TensorProto

    return work.node("Cast", value, to=TensorProto.FLOAT)


_RULES: Mapping[str, Callable[[Rewriting, Any], bool]] = {
    "ArrayFeatureExtractor": _extract,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}
