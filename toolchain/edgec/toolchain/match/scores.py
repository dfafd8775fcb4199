"""Scores of queries and keys: one product, scaled, capped, biased and masked in any order.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.evaluate import NotEvaluated, NotNamed, evaluate
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import made_by, shape_of
from edgec.toolchain.ir.views import Strided
from edgec.toolchain.ir.weights import follows_from_weights
from edgec.toolchain.match.description import Array
from edgec.toolchain.match.softmax import plain

__all__ = ["LOW", "Bias", "Mask", "Scores", "Term", "read_scores"]

LOW = -1e30
"""A score that counts for nothing beside any that a network computes, and stays if one is added."""

_View = TypeVar("_View")
_DEEPEST = 16
_MOST_WORKED_OUT = 1 << 20
"""Elements of a mask that is worked out here; one that always holds is small before it repeats."""


@dataclass(frozen=True, kw_only=True)
class Bias(Generic[_View]):
    """Scores become `scores + factor * bias`.

    Attributes:
        view: the bias.
        factor: what it is multiplied with.
    """

    view: _View
    factor: float = 1.0

    def apply(self, scores: Array, bias: Array) -> Array:
        """The scores after it."""
        result: Array = scores + self.factor * bias
        return result


@dataclass(frozen=True, kw_only=True)
class Mask(Generic[_View]):
    """Scores stay where a truth value is `keep`, and become `otherwise` elsewhere.

    Attributes:
        view: the truth values, i1.
        keep: which of the two keeps a score.
        otherwise: what the others become.
    """

    view: _View
    keep: bool
    otherwise: float

    def apply(self, scores: Array, truth: Array) -> Array:
        """The scores after it."""
        result: Array = np.where(truth.astype(bool) == self.keep, scores, self.otherwise)
        return result


Term = Bias[_View] | Mask[_View]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What scores are made of.

    Attributes:
        product: the `dot_general` of queries and keys.
        view: its result, by the axes of the one who looks.
        scale: what it is multiplied with.
        cap: it then becomes `cap * tanh(it)`; 0 where it does not.
        terms: what is then done to it, in order.
    """

    product: Any
    view: Strided
    scale: float
    cap: float = 0.0
    terms: tuple[Term[Strided], ...] = ()


def read_scores(view: Strided) -> Scores | None:
    """What the viewed elements are made of, if they are scores."""
    return _read(view, 1.0, 0)


def _read(view: Strided, factor: float, deep: int) -> Scores | None:
    """The same of elements that are multiplied with `factor` later on."""
    view = plain(view)
    if isinstance(view.value.owner, ir.Block) or deep > _DEEPEST:
        return None
    op = view.value.owner.operation
    operands = list(op.operands)
    further = [replace(view, value=value) for value in operands]
    match op.name:
        case "stablehlo.dot_general":
            # What weights alone give is a bias (of places, say), whatever makes it.
            if follows_from_weights(view.value):
                return None
            return Scores(product=op, view=view, scale=factor)
        case "stablehlo.multiply" | "stablehlo.divide":
            return _scaled(op, further, factor, deep)
        case "stablehlo.negate":
            return _read(further[0], -factor, deep + 1)
        case "stablehlo.tanh":
            inner = _read(further[0], 1.0, deep + 1)
            if inner is None or inner.terms or inner.cap:
                return None
            return replace(inner, cap=factor)
        case "stablehlo.add":
            for one, other in ((0, 1), (1, 0)):
                if (inner := _read(further[one], factor, deep + 1)) is not None:
                    return _with(inner, *_bias(further[other], factor))
        case "stablehlo.subtract":
            if (inner := _read(further[0], factor, deep + 1)) is not None:
                return _with(inner, *_bias(further[1], -factor))
        case "stablehlo.select":
            if shape_of(operands[0]) != shape_of(operands[1]):
                return None
            for one, keep in ((1, True), (2, False)):
                number = splat(operands[3 - one])
                inner = None if number is None else _read(further[one], factor, deep + 1)
                if inner is not None and number is not None:
                    return _with(inner, *_masks(further[0], keep, number * factor))
    return None


def _scaled(op: Any, further: list[Strided], factor: float, deep: int) -> Scores | None:
    """Scores that are multiplied with a number or divided by it."""
    for one, other in ((0, 1), (1, 0)):
        number = splat(op.operands[other])
        if not number or not math.isfinite(number):
            continue
        if op.name == "stablehlo.multiply":
            return _read(further[one], factor * number, deep + 1)
        if one == 0:
            return _read(further[0], factor / number, deep + 1)
    return None


def _with(scores: Scores, *terms: Term[Strided]) -> Scores:
    return replace(scores, terms=(*scores.terms, *terms))


def _bias(view: Strided, factor: float) -> Iterator[Term[Strided]]:
    """What is added to scores; a choice between zero and what no score shows beside is a mask."""
    if splat(view.value) == 0:
        return
    seen = plain(view)
    if (select := made_by(seen.value, "select")) is not None:
        truth, *chosen = select.operands
        numbers = [splat(value) for value in chosen]
        same = shape_of(truth) == shape_of(chosen[0])
        for keep, numbered in ((True, numbers), (False, numbers[::-1])):
            lowest = math.nan if numbered[1] is None else numbered[1] * factor
            if same and numbered[0] == 0 and lowest <= LOW:
                yield from _masks(replace(seen, value=truth), keep, lowest)
                return
    yield Bias(view=view, factor=factor)


def _masks(view: Strided, keep: bool, otherwise: float) -> Iterator[Term[Strided]]:
    """Masks of a truth value: where it is made of several that all must hold, one for each."""
    seen = plain(view)
    if (negation := made_by(seen.value, "not")) is not None:
        yield from _masks(replace(seen, value=negation.operands[0]), not keep, otherwise)
        return
    both = made_by(seen.value, "and" if keep else "or")
    if both is None:
        if not _is_always(seen.value, keep):
            yield Mask(view=view, keep=keep, otherwise=otherwise)
        return
    for operand in both.operands:
        yield from _masks(replace(seen, value=operand), keep, otherwise)


def _is_always(truth: Any, keep: bool) -> bool:
    """Whether a truth value follows from constants alone, and all of it is `keep`."""
    if math.prod(size or 0 for size in shape_of(truth)) > _MOST_WORKED_OUT:
        return False
    try:
        (found,) = evaluate([truth], {})
    except (NotEvaluated, NotNamed):
        return False
    return bool((found == keep).all())
