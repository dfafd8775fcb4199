"""What a layer norm or RMS norm is made of, along the last axis, however a framework wrote it.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.rows import row_of
from edgec.toolchain.ir.write import shape
from edgec.toolchain.match.description import Array, Description

__all__ = ["Centre", "Norm", "ends", "made_by", "variance"]


@dataclass(frozen=True, kw_only=True)
class Centre:
    """What is normalised: `value`, less its mean if `mean`."""

    value: Any
    mean: bool


@dataclass(frozen=True, kw_only=True)
class Norm(Description):
    """A tensor normalised along its last axis.

    Attributes:
        source: what is normalised.
        mean: whether its mean is taken from it first.
        epsilon: what is added to the variance.
        scale, shift: one number a column, or None.
        value: the result.
    """

    source: Any
    mean: bool
    epsilon: float
    scale: Any
    shift: Any
    value: Any

    @property
    def operands(self) -> tuple[Any, ...]:
        """The tensor, and what else is read."""
        return tuple(v for v in (self.source, self.scale, self.shift) if v is not None)

    @property
    def results(self) -> tuple[Any, ...]:
        """What a kernel stores."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """(x - mean) / sqrt(variance + epsilon) * scale + shift."""
        x = inputs[0]
        if self.mean:
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        if self.scale is not None:
            x = x * inputs[1].reshape(-1)
        if self.shift is not None:
            x = x + inputs[-1].reshape(-1)
        return (np.asarray(x).reshape(shape(self.value)),)


def made_by(value: Any, name: str) -> Any | None:
    """The operation that gives a value, if it has this name."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    return op if op.name == f"stablehlo.{name}" else None


def _with_number(op: Any) -> tuple[Any, float] | None:
    """An operation's other operand and the constant that it is combined with."""
    left, right = op.operands
    for value, other in ((left, right), (right, left)):
        number = splat(other)
        if number is not None:
            return value, number
    return None


def _spread(value: Any) -> Any:
    """The value behind changes of shape that repeat it along the last axis."""
    while True:
        op = made_by(value, "broadcast_in_dim")
        if op is not None:
            if integers(op, "broadcast_dimensions") != list(range(op.operands[0].type.rank)):
                return value
        else:
            op = made_by(value, "reshape")
            if op is None or shape(value) != (*shape(op.operands[0]), 1):
                return value
        value = op.operands[0]


def _mean_of(value: Any) -> Any | None:
    """The tensor that a value is the mean of along the last axis."""
    value = _spread(value)
    for name in ("divide", "multiply"):
        op = made_by(value, name)
        if op is None or (name == "divide" and splat(op.operands[1]) is None):
            continue
        found = _with_number(op)
        if found is None:
            continue
        total, number = found
        summed = made_by(_spread(total), "reduce")
        if summed is None or len(summed.operands) != 2:
            return None
        tensor, start = summed.operands
        inner = [each.operation.name for each in summed.regions[0].blocks[0].operations]
        width = shape(tensor)[-1]
        count = number if name == "divide" else 1 / number if number else 0.0
        fits = (
            inner == ["stablehlo.add", "stablehlo.return"]
            and splat(start) == 0
            and integers(summed, "dimensions") == [tensor.type.rank - 1]
            and math.isclose(count, width, rel_tol=1e-5)
        )
        return tensor if fits else None
    return None


def _centred(value: Any) -> Centre:
    """A tensor as another less its mean, or as itself."""
    op = made_by(value, "subtract")
    if op is not None and _mean_of(op.operands[1]) == op.operands[0]:
        return Centre(value=op.operands[0], mean=True)
    return Centre(value=value, mean=False)


def variance(value: Any) -> tuple[Centre, float] | None:
    """What a value is the variance of, and the constant added to it."""
    op = made_by(_spread(value), "add")
    found = None if op is None else _with_number(op)
    if found is None:
        return None
    squares = _mean_of(found[0])
    if squares is not None:
        tensor = _squared(squares)
        return None if tensor is None else (_centred(tensor), found[1])
    # The mean of squares less the square of the mean, perhaps kept from below 0.
    spread = found[0]
    kept = made_by(_spread(spread), "maximum")
    if kept is not None:
        inner = _with_number(kept)
        if inner is None or inner[1] != 0:
            return None
        spread = inner[0]
    difference = made_by(_spread(spread), "subtract")
    if difference is None:
        return None
    squares, square = (_spread(v) for v in difference.operands)
    tensor = _squared(_mean_of(squares))
    mean = _squared(square)
    if tensor is None or mean is None or _mean_of(mean) != tensor:
        return None
    return Centre(value=tensor, mean=True), found[1]


def _squared(value: Any) -> Any | None:
    """What a value is the square of."""
    op = None if value is None else made_by(value, "multiply")
    return op.operands[0] if op is not None and op.operands[0] == op.operands[1] else None


def ends(factor: Any, centre: Centre, width: int) -> Iterator[tuple[Any, Any, Any]]:
    """Values that a kernel can give in place of the program, longest last: value, scale, shift."""
    scale = shift = None
    value = factor
    multiplied = False
    while True:
        users = [use.owner.operation for use in value.uses]
        if len(users) != 1:
            return
        (user,) = users
        if user.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape") and not multiplied:
            value = user.results[0]
            continue
        if user.name == "stablehlo.convert" and multiplied:
            value = user.results[0]
            yield value, scale, shift
            continue
        if user.name not in ("stablehlo.multiply", "stablehlo.add") or len(user.operands) != 2:
            return
        other = next((v for v in user.operands if v != value), None)
        if other is None:
            return
        if user.name == "stablehlo.multiply" and not multiplied and _is(other, centre):
            multiplied = True
        else:
            vector = row_of(other, width)
            if vector is None:
                return
            if user.name == "stablehlo.multiply" and scale is None and shift is None:
                scale = vector
            elif user.name == "stablehlo.add" and shift is None and multiplied:
                shift = vector
            else:
                return
        value = user.results[0]
        if multiplied:
            yield value, scale, shift


def _is(value: Any, centre: Centre) -> bool:
    """Whether a value is what was centred."""
    return _centred(value) == centre
