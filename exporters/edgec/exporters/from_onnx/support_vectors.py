"""ONNX' support vectors (`ai.onnx.ml`) in its usual operations: how near a row is to each vector,
and what weighted sums of that say.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting
from edgec.exporters.from_onnx.trees import transformed

__all__ = ["classifier", "regressor"]


def regressor(work: Rewriting, node: Any) -> bool:
    """A weighted sum of how near a row is to each vector, or which side of zero that is."""
    given = work.attributes(node)
    value = _rows(work, node)
    if given.get("post_transform", "NONE") != "NONE" or value is None:
        return False
    count = int(given.get("n_supports", 0))
    weights = np.array(given["coefficients"], np.float32).reshape(-1, 1)
    near = value
    if count:
        vectors = np.array(given["support_vectors"], np.float32).reshape(count, -1)
        found = _nearness(work, value, vectors, given)
        if found is None:
            return False
        near = found
    score = work.node("MatMul", near, work.constant(weights))
    score = work.node("Add", score, work.number(given.get("rho", [0.0])[0]))
    if not given.get("one_class", 0):
        work.node("Identity", score, output=node.output[0])
        return True
    inside = work.node("Greater", score, work.number(0))
    work.node("Where", inside, work.number(1), work.number(-1), output=node.output[0])
    return True


def classifier(work: Rewriting, node: Any) -> bool:
    """The class that wins most of its duels with each other class, and what each duel came to.

    Probabilities (`prob_a`) come of an iteration that stops when it is near enough: no rule here.
    """
    given = work.attributes(node)
    value, labels = _rows(work, node), given.get("classlabels_ints")
    counts: Sequence[int] = given.get("vectors_per_class") or ()
    coefficients = np.array(given["coefficients"], np.float32)
    transform = given.get("post_transform", "NONE")
    # Two classes whose weights are all positive are told apart by another rule, and of their
    # scores' softmax ONNX Runtime and ONNX' reference think differently.
    odd = len(counts) == 2 and (coefficients.min() >= 0 or transform == "SOFTMAX")
    if value is None or not labels or len(labels) != len(counts) or given.get("prob_a") or odd:
        return False
    vectors = np.array(given["support_vectors"], np.float32).reshape(sum(counts), -1)
    near = _nearness(work, value, vectors, given)
    if near is None:
        return False
    duels = list(combinations(range(len(counts)), 2))
    weights = _duel_weights(coefficients.reshape(-1, sum(counts)), counts, duels)
    score = work.node("MatMul", near, work.constant(weights))
    score = work.node("Add", score, work.constant(np.array(given["rho"], np.float32)))
    won = work.node("Greater", score, work.number(0))
    votes = work.node("MatMul", _float(work, won), work.constant(_votes(duels, len(counts), 0)))
    lost = _float(work, work.node("Not", won))
    others = work.node("MatMul", lost, work.constant(_votes(duels, len(counts), 1)))
    best = work.node("ArgMax", work.node("Add", votes, others), axis=1, keepdims=0)
    work.node("Gather", work.constant(np.array(labels, np.int64)), best, output=node.output[0])
    if len(duels) == 1:
        score = work.node("Concat", work.node("Neg", score), score, axis=1)
    return transformed(work, score, transform, node.output[1])


def _duel_weights(
    coefficients: np.ndarray, counts: Sequence[int], duels: Sequence[tuple[int, int]]
) -> np.ndarray:
    """What each vector says in each duel; libsvm keeps a row of weights less than classes."""
    ends = np.cumsum([0, *counts])
    weights = np.zeros((ends[-1], len(duels)), np.float32)
    for number, (one, other) in enumerate(duels):
        mine, theirs = (slice(ends[c], ends[c + 1]) for c in (one, other))
        weights[mine, number] = coefficients[other - 1, mine]
        weights[theirs, number] = coefficients[one, theirs]
    return weights


def _votes(duels: Sequence[tuple[int, int]], count: int, side: int) -> np.ndarray:
    """Whom each duel's vote goes to, if its first class wins (`side` 0) or loses (1)."""
    found = np.zeros((len(duels), count), np.float32)
    for number, duel in enumerate(duels):
        found[number, duel[side]] = 1
    return found


def _rows(work: Rewriting, node: Any) -> str | None:
    """The first operand in f32, if it is known to be a matrix."""
    name = node.input[0]
    if len(work.shapes.get(name) or ()) != 2:
        return None
    return name if work.kinds.get(name) == np.float32 else _float(work, name)


def _float(work: Rewriting, value: str) -> str:
    from onnx import TensorProto

    return work.node("Cast", value, to=TensorProto.FLOAT)


def _nearness(
    work: Rewriting, value: str, vectors: np.ndarray, given: Mapping[str, Any]
) -> str | None:
    """A row's kernel with each vector, as libsvm names the kernels."""
    gamma, offset, degree = (*given.get("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    kernel = given.get("kernel_type", "LINEAR")
    if kernel == "RBF":
        apart = work.node("Unsqueeze", value, work.numbers(1))
        apart = work.node("Sub", apart, work.constant(vectors[None]))
        squares = work.node("Mul", apart, apart)
        far = work.node("ReduceSum", squares, work.numbers(-1), keepdims=0)
        return work.node("Exp", work.node("Mul", far, work.number(-gamma)))
    product = work.node("MatMul", value, work.constant(vectors.T))
    if kernel == "LINEAR":
        return product
    moved = work.node("Mul", product, work.number(gamma))
    moved = work.node("Add", moved, work.number(offset))
    if kernel == "POLY":
        return work.node("Pow", moved, work.number(degree))
    return work.node("Tanh", moved) if kernel == "SIGMOID" else None
