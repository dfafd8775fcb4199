"""ONNX' ensembles of decision trees in its usual operations: all trees walked at once, in levels.

Each level gathers the tests of the nodes that the rows have come to, and where they go from there;
a leaf leads to itself. Sets of members (`BRANCH_MEMBER`) are chains of tests for equality.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["Forest", "aggregated", "forest_of_keys", "forest_of_places", "transformed"]

_STEPS = 64
"""Levels of a tree; a deeper one is left as it is."""

_LEAF = "LEAF"
_TESTS: Mapping[str, tuple[str, bool]] = {
    "BRANCH_LEQ": ("LessOrEqual", False),
    "BRANCH_LT": ("Less", False),
    "BRANCH_GTE": ("GreaterOrEqual", False),
    "BRANCH_GT": ("Greater", False),
    "BRANCH_EQ": ("Equal", False),
    "BRANCH_NEQ": ("Equal", True),
}
"""What a node asks, to an operation and whether its answer is turned round."""

_MODES = (*_TESTS, "BRANCH_MEMBER")
"""The numbers of the tests where they are numbers (`TreeEnsemble`)."""


@dataclass(frozen=True, kw_only=True)
class Forest:
    """All nodes of all trees.

    Attributes:
        modes: what each asks; `LEAF` for a leaf.
        features: which feature it looks at.
        bounds: what it compares that with.
        ways: where it leads if so, and if not; a leaf leads to itself.
        follows: whether a feature that is no number leads where the test is true.
        roots: where each tree begins.
        weights: what a leaf says of each target.
    """

    modes: tuple[str, ...]
    features: np.ndarray
    bounds: np.ndarray
    ways: tuple[np.ndarray, np.ndarray]
    follows: np.ndarray
    roots: tuple[int, ...]
    weights: np.ndarray

    @property
    def depth(self) -> int:
        """How many tests there are at most between a root and a leaf; no more than can be."""
        level, depth = set(self.roots), 0
        while depth <= _STEPS and any(self.modes[at] != _LEAF for at in level):
            level = {int(way[at]) for at in level for way in self.ways}
            depth += 1
        return depth


def forest_of_keys(given: Mapping[str, Any], kind: str, count: int) -> Forest:
    """The trees of `TreeEnsembleRegressor` and `-Classifier`, whose nodes have keys.

    Args:
        given: the node's attributes.
        kind: `target` or `class`: what its leaves speak of.
        count: how many of those there are.
    """
    keys = list(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    place = {key: number for number, key in enumerate(keys)}
    modes = tuple(_text(mode) for mode in given["nodes_modes"])
    true, false = (
        np.array(
            [
                number if modes[number] == _LEAF else place[keys[number][0], target]
                for number, target in enumerate(given[f"nodes_{way}nodeids"])
            ],
            np.int64,
        )
        for way in ("true", "false")
    )
    inner = [number for number, mode in enumerate(modes) if mode != _LEAF]
    targets = {*true[inner].tolist(), *false[inner].tolist()}
    weights = np.zeros((len(keys), count), np.float32)
    of = zip(
        *(given[f"{kind}_{what}"] for what in ("treeids", "nodeids", "ids", "weights")), strict=True
    )
    for tree, number, column, weight in of:
        weights[place[tree, number], column] += weight
    return Forest(
        modes=modes,
        features=np.array(given["nodes_featureids"], np.int64),
        bounds=np.array(given["nodes_values"], np.float32),
        ways=(true, false),
        follows=_follows(given, len(keys)),
        roots=tuple(number for number in range(len(keys)) if number not in targets),
        weights=weights,
    )


def forest_of_places(given: Mapping[str, Any]) -> Forest:
    """The trees of `TreeEnsemble`, whose nodes and leaves are told apart and called by place."""
    from onnx import numpy_helper

    bounds = numpy_helper.to_array(given["nodes_splits"])
    leaf_weights = numpy_helper.to_array(given["leaf_weights"])
    modes = [_MODES[int(mode)] for mode in numpy_helper.to_array(given["nodes_modes"])]
    inner, leaves = len(modes), len(leaf_weights)
    true, false = (
        np.array(given[f"nodes_{way}nodeids"], np.int64)
        + inner * np.array(given[f"nodes_{way}leafs"], np.int64)
        for way in ("true", "false")
    )
    weights = np.zeros((inner + leaves, int(given.get("n_targets", 1))), leaf_weights.dtype)
    weights[inner + np.arange(leaves), np.array(given["leaf_targetids"], np.int64)] = leaf_weights
    itself = inner + np.arange(leaves)
    forest = Forest(
        modes=(*modes, *[_LEAF] * leaves),
        features=np.append(np.array(given["nodes_featureids"], np.int64), np.zeros_like(itself)),
        bounds=np.append(bounds, np.zeros(leaves, bounds.dtype)),
        ways=(np.append(true, itself), np.append(false, itself)),
        follows=_follows(given, inner + leaves),
        roots=tuple(int(root) for root in given["tree_roots"]),
        weights=weights,
    )
    if "BRANCH_MEMBER" not in modes:
        return forest
    return _chained(forest, _sets(numpy_helper.to_array(given["membership_values"])))


def _sets(values: np.ndarray) -> list[np.ndarray]:
    """Lists with a NaN after each."""
    ends = np.flatnonzero(np.isnan(values))
    parts = [part[~np.isnan(part)] for part in np.split(values, ends)]
    return parts[: ends.size] if ends.size and ends[-1] == len(values) - 1 else parts


def _chained(forest: Forest, sets: Iterable[np.ndarray]) -> Forest:
    """The forest with a test for each member of a set, each leading to the next."""
    modes, (true, false) = list(forest.modes), (list(way) for way in forest.ways)
    features, bounds = list(forest.features), list(forest.bounds)
    follows, added = list(forest.follows), 0
    asking = [number for number, mode in enumerate(modes) if mode == "BRANCH_MEMBER"]
    for number, members in zip(asking, sets, strict=True):
        modes[number], bounds[number] = "BRANCH_EQ", members[0] if members.size else np.nan
        last = number
        for member in members[1:]:
            modes.append("BRANCH_EQ")
            bounds.append(member)
            features.append(features[number])
            follows.append(follows[number])
            true.append(true[number])
            false.append(false[last])
            false[last] = len(modes) - 1
            last = len(modes) - 1
            added += 1
    none = np.zeros((added, forest.weights.shape[1]), forest.weights.dtype)
    return Forest(
        modes=tuple(modes),
        features=np.array(features),
        bounds=np.array(bounds, forest.bounds.dtype),
        ways=(np.array(true), np.array(false)),
        follows=np.array(follows),
        roots=forest.roots,
        weights=np.concatenate([forest.weights, none]),
    )


def aggregated(work: Rewriting, value: str, forest: Forest, *, how: str = "SUM") -> str | None:
    """What the leaves that each row comes to say of each target, all trees together.

    Args:
        work: the graph.
        value: rows of features, in the type of the bounds.
        forest: the trees.
        how: `SUM`, `AVERAGE`, or, of one target, `MIN` or `MAX`.
    """
    shape, depth = work.shapes.get(value), forest.depth
    reductions = {
        "SUM": "ReduceSum",
        "AVERAGE": "ReduceSum",
        "MIN": "ReduceMin",
        "MAX": "ReduceMax",
    }
    if shape is None or len(shape) != 2 or depth > _STEPS or how not in reductions:
        return None
    if how in ("MIN", "MAX") and forest.weights.shape[1] > 1:
        return None  # of which target a tree says nothing is not told here
    at = work.constant(np.tile(np.array(forest.roots, np.int64), (shape[0], 1)))
    tables = _Tables(work, forest)
    for _ in range(depth):
        at = tables.next(value, at)
    weights = forest.weights / (len(forest.roots) if how == "AVERAGE" else 1)
    reached = work.node("Gather", work.constant(weights.astype(forest.weights.dtype)), at, axis=0)
    if how in ("MIN", "MAX") and work.versions.get("", 0) < 18:
        return work.node(reductions[how], reached, axes=[1], keepdims=0)
    return work.node(reductions[how], reached, work.numbers(1), keepdims=0)


class _Tables:
    """A forest as constants of a graph."""

    def __init__(self, work: Rewriting, forest: Forest) -> None:
        self._work = work
        self._features, self._bounds, *self._ways = (
            work.constant(table) for table in (forest.features, forest.bounds, *forest.ways)
        )
        asked = [mode for mode in forest.modes if mode != _LEAF]
        # A leaf's answer does not matter, so any test will do for it.
        self._asked = list(dict.fromkeys(asked)) or ["BRANCH_LEQ"]
        self._asks = {
            mode: work.constant(np.array([m == mode for m in forest.modes]))
            for mode in self._asked[1:]
        }
        inner = np.array([mode != _LEAF for mode in forest.modes])
        has_follower = bool((forest.follows & inner).any())
        self._follows = work.constant(forest.follows) if has_follower else None

    def next(self, value: str, at: str) -> str:
        """The nodes that follow those that the rows are at."""
        work = self._work
        found = work.node("GatherElements", value, work.node("Gather", self._features, at), axis=1)
        bound = work.node("Gather", self._bounds, at)
        goes = self._answer(self._asked[0], found, bound)
        for mode, asks in self._asks.items():
            other = self._answer(mode, found, bound)
            goes = work.node("Where", work.node("Gather", asks, at), other, goes)
        if self._follows is not None:
            no_number = work.node("IsNaN", found)
            lost = work.node("And", no_number, work.node("Gather", self._follows, at))
            goes = work.node("Or", goes, lost)
        return work.node("Where", goes, *(work.node("Gather", way, at) for way in self._ways))

    def _answer(self, mode: str, found: str, bound: str) -> str:
        operation, turned = _TESTS[mode]
        answer = self._work.node(operation, found, bound)
        return self._work.node("Not", answer) if turned else answer


def transformed(work: Rewriting, score: str, how: str, output: str) -> bool:
    """Scores as probabilities; whether that way is known."""
    kinds: Mapping[str, tuple[str, Mapping[str, int]]] = {
        "NONE": ("Identity", {}),
        "SOFTMAX": ("Softmax", {"axis": 1}),
        "LOGISTIC": ("Sigmoid", {}),
    }
    if how not in kinds:
        return False
    operation, attributes = kinds[how]
    work.node(operation, score, output=output, **attributes)
    return True


def _follows(given: Mapping[str, Any], count: int) -> np.ndarray:
    told: Sequence[int] = given.get("nodes_missing_value_tracks_true") or ()
    return np.array([*told, *[0] * (count - len(told))], bool)


def _text(mode: Any) -> str:
    return mode.decode() if isinstance(mode, bytes) else str(mode)
