"""Elements that are the softmax of others along one axis, however a framework wrote it.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from edgec.toolchain.ir.elementwise import direction
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, made_by, shape_of
from edgec.toolchain.ir.views import Digit, Strided, before, dense, through

__all__ = ["Softmax", "plain", "read_softmax"]

_LOWEST = -1e4
"""No softmax of use begins its search for the largest score above this."""


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """What elements are the softmax of.

    Attributes:
        scores: those, by the same axes.
        source: the value that powers are taken of, less their largest: the scores before anything
            that moves or converts them is seen through.
        safe: where all scores along the axis are minus infinity the result is 0, not NaN.
        chosen: the `select` that puts 0 in place of NaN whatever it comes from; None if none does.
    """

    scores: Strided
    source: Any
    safe: bool
    chosen: Any = None


def read_softmax(view: Strided, axis: int) -> Softmax | None:
    """What the viewed elements are the softmax of along one of the viewer's axes; None if none."""
    view = plain(view)
    truth = None
    select = made_by(view.value, "select")
    if select is not None:
        chosen, empty, shares = select.operands
        if splat(empty) != 0:
            return None
        truth = replace(view, value=chosen)
        view = plain(replace(view, value=shares))
    divide = made_by(view.value, "divide")
    if divide is None:
        return None
    powers, total = (replace(view, value=value) for value in divide.operands)
    powers = plain(powers)
    power = made_by(powers.value, "exponential")
    if power is None or _reduced(total, axis, "add") != powers:
        return None
    (source,) = power.operands
    scores = plain(replace(powers, value=source))
    if shifted := made_by(scores.value, "subtract"):
        inner, most = (replace(scores, value=value) for value in shifted.operands)
        if _reduced(most, axis, "maximum") == plain(inner):
            scores, source = plain(inner), inner.value
    if truth is None or _is_all_lowest(truth, axis, scores):
        return Softmax(scores=scores, source=source, safe=truth is not None)
    if not _is_nan(truth, view):
        return None
    return Softmax(scores=scores, source=source, safe=False, chosen=select)


def plain(view: Strided) -> Strided:
    """A view seen through all that moves, repeats or converts its elements."""
    while (further := before(view, converts=True)) is not None:
        view = further
    return view


def _reduced(view: Strided, axis: int, body: str) -> Strided | None:
    """The elements that are reduced along an axis of the viewer to what is viewed, all the same.

    None where the view is of anything else.
    """
    view = _unbounded(view, body)
    op = made_by(view.value, "reduce")
    if op is None or len(op.operands) != 2 or any(digit.step for digit in view.axes[axis]):
        return None
    inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
    along = integers(op, "dimensions")
    if inner != [f"stablehlo.{body}", "stablehlo.return"] or len(along) != 1:
        return None
    if not _starts(op, body):
        return None
    sizes = [size or 0 for size in shape_of(op.operands[0])]
    packed = dense(sizes)
    kept = [step for i, step in enumerate(packed) if i != along[0]]
    inside = through(view, op.operands[0], kept)
    if inside is None or math.prod(digit.size for digit in view.axes[axis]) != sizes[along[0]]:
        return None
    axes = list(inside.axes)
    axes[axis] = (Digit(size=sizes[along[0]], step=packed[along[0]]),)
    return plain(replace(inside, axes=tuple(axes)))


def _starts(op: Any, body: str) -> bool:
    """Whether a reduction starts from what changes nothing."""
    start = splat(op.operands[1])
    if body == "and":
        return start in (1.0, -1.0)
    if body == "add":
        return start == 0
    return start is not None and start < _LOWEST


def _unbounded(view: Strided, body: str) -> Strided:
    """A view through moves, and for `maximum` through bounds below that no score reaches."""
    while True:
        view = plain(view)
        op = made_by(view.value, "maximum") if body == "maximum" else None
        if op is None:
            return view
        low = [(splat(v) or 0.0) < _LOWEST for v in op.operands]
        if True not in low:
            return view
        view = replace(view, value=op.operands[1 - low.index(True)])


def _is_nan(truth: Strided, shares: Strided) -> bool:
    """Whether a truth value says of each share that it is no number."""
    truth = plain(truth)
    compare = made_by(truth.value, "compare")
    if compare is None or direction(compare) != "NE":
        return False
    return all(plain(replace(truth, value=value)) == shares for value in compare.operands)


def _is_all_lowest(truth: Strided, axis: int, scores: Strided) -> bool:
    """Whether a truth value says of each row of scores that all of it is minus infinity."""
    every = _reduced(truth, axis, "and")
    compare = made_by(every.value, "compare") if every else None
    if every is None or compare is None:
        return False
    if "EQ" not in str(compare.attributes["comparison_direction"]):
        return False
    same = plain(replace(every, value=compare.operands[0])) == scores
    return same and splat(compare.operands[1]) == -math.inf
