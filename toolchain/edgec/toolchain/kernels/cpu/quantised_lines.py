"""The steps of an epilogue to fewer: what is linear in a sum is one multiplication and addition.

A dequantised sum is multiplied with scales, biases are added, it is clipped, divided by another
scale, rounded, shifted and clipped again. All that is `clip(sum * M + B)`, rounded at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgec.toolchain.kernels.cpu.source.epilogue import Epilogue, Step
from edgec.toolchain.match.expression import Source

__all__ = ["Line", "Simplified", "simplify"]

_SMALL = 2.0**22  # three times this and less than this lie one apart from the next f32
_Number = Any
"""A float, or an array with one for each channel."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """`clip(base * slope + offset, low, high)`, perhaps rounded to the nearest whole number.

    Attributes:
        base: where the variable is; None for a constant, which is `offset`.
        slope, offset: numbers, or arrays with one for each channel.
        low, high: what it is clipped to.
        rounded: whether it is rounded after that; `low` and `high` are whole numbers then, or
            infinite.
        after: a whole number that is added after rounding.
    """

    base: tuple[Source, float] | None = None
    slope: _Number = 1.0
    offset: _Number = 0.0
    low: float = -np.inf
    high: float = np.inf
    rounded: bool = False
    after: float = 0.0

    @property
    def is_constant(self) -> bool:
        """Whether it has no variable."""
        return self.base is None

    @property
    def is_open(self) -> bool:
        """Whether nothing is done after the multiplication and addition."""
        return not self.rounded and self.low == -np.inf and self.high == np.inf


@dataclass(kw_only=True)
class Simplified:
    """An epilogue being written.

    Attributes:
        steps: its steps so far.
        channels: what stands for each channel tensor: an array of f32, or a value of the program.
        tensors: how many other tensors it reads.
    """

    steps: list[Step] = field(default_factory=list)
    channels: list[Any] = field(default_factory=list)
    tensors: int = 0

    @property
    def epilogue(self) -> Epilogue:
        """What was written, for a kernel."""
        return Epilogue(steps=tuple(self.steps), channels=len(self.channels), tensors=self.tensors)

    def add(self, name: str, *operands: tuple[Source, float]) -> tuple[Source, float]:
        """A new step; where its value is."""
        self.steps.append(Step(name=name, operands=operands))
        return (Source.STEP, len(self.steps) - 1)

    def number(self, value: _Number) -> tuple[Source, float]:
        """Where a number, or one for each channel, is found."""
        array = np.asarray(value, np.float32)
        if array.ndim == 0 or (array == array.flat[0]).all():
            return (Source.SCALAR, float(array.flat[0]))
        for place, known in enumerate(self.channels):
            if isinstance(known, np.ndarray) and np.array_equal(known, array):
                return (Source.ROW, place)
        self.channels.append(array)
        return (Source.ROW, len(self.channels) - 1)

    def make(self, line: Line, added: tuple[Source, float] | None = None) -> Any:
        """Steps that compute a line, and where its value is; `added` stands for its offset."""
        if line.base is None:
            return self.number(line.offset)
        value = line.base
        offset = added if added is not None else self.number(line.offset)
        shifts = added is not None or np.any(np.asarray(line.offset))
        scales = np.any(np.asarray(line.slope) != 1.0)
        if scales and shifts:
            value = self.add("math.fma", value, self.number(line.slope), offset)
        elif scales:
            value = self.add("arith.mulf", value, self.number(line.slope))
        elif shifts:
            value = self.add("arith.addf", value, offset)
        if line.low > -np.inf:
            value = self.add("arith.maximumf", value, (Source.SCALAR, line.low))
        if line.high < np.inf:
            value = self.add("arith.minimumf", value, (Source.SCALAR, line.high))
        if line.rounded:
            value = self._rounded(line, value)
        if line.after:
            value = self.add("arith.addf", value, (Source.SCALAR, line.after))
        return value

    def _rounded(self, line: Line, value: tuple[Source, float]) -> tuple[Source, float]:
        """The value rounded: what is small enough loses its fraction beside a large number."""
        if max(-line.low, line.high) > _SMALL:
            return self.add("math.roundeven", value)
        large = (Source.SCALAR, 3.0 * _SMALL)
        return self.add("arith.subf", self.add("arith.addf", value, large), large)

    def settled(self, line: Line) -> Line:
        """The same value with nothing left to do."""
        return line if line.is_constant else Line(base=self.make(line))


def simplify(
    steps: Sequence[Step],
    total: Line,
    channels: Sequence[Any],
    tensors: Sequence[Line],
) -> tuple[Simplified, Line]:
    """The steps that are left before the last value's line, and that line.

    Args:
        steps: an epilogue's steps.
        total: what the sum stands for.
        channels: an array for each channel tensor whose numbers are known; else a value.
        tensors: what each other tensor stands for.
    """
    made = Simplified(tensors=len(tensors))
    done: list[Line] = []

    def line(operand: tuple[Source, float]) -> Line:
        kind, number = operand
        match kind:
            case Source.SUM:
                return total
            case Source.STEP:
                return done[int(number)]
            case Source.TENSOR:
                return tensors[int(number)]
            case Source.SCALAR:
                return Line(offset=float(number))
            case Source.ROW:
                known = channels[int(number)]
                if isinstance(known, np.ndarray):
                    return Line(offset=known.astype(np.float64))
                made.channels.append(known)
                return Line(base=(Source.ROW, len(made.channels) - 1))

    for step in steps:
        done.append(_apply(made, step.name, [line(operand) for operand in step.operands]))
    return made, done[-1] if done else total


def _apply(made: Simplified, name: str, values: list[Line]) -> Line:
    """The line of a step, with steps written for what cannot wait."""
    match name:
        case "math.roundeven":
            (value,) = values
            if value.rounded:
                return value
            return _round(value) or Line(base=made.add(name, made.make(value)))
        case "arith.negf":
            return _scaled(made, values[0], -1.0)
        case "arith.subf":
            return _sum(made, values[0], _scaled(made, values[1], -1.0))
        case "arith.addf":
            return _sum(made, *values)
        case "arith.mulf" | "arith.divf":
            one, other = values
            if one.is_constant and name == "arith.mulf":
                one, other = other, one
            if other.is_constant:
                factor = other.offset if name == "arith.mulf" else 1.0 / np.asarray(other.offset)
                return _scaled(made, one, factor)
        case "arith.maximumf" | "arith.minimumf":
            one, other = values
            if one.is_constant:
                one, other = other, one
            clipped = _clipped(one, other, name == "arith.maximumf")
            if clipped is not None:
                return clipped
    return Line(base=made.add(name, *(made.make(value) for value in values)))


def _round(value: Line) -> Line | None:
    """The line rounded; its bounds may be rounded before it."""
    low, high = (np.rint(end) if np.isfinite(end) else end for end in (value.low, value.high))
    return replace(value, low=float(low), high=float(high), rounded=True)


def _clipped(value: Line, other: Line, least: bool) -> Line | None:
    if value.is_constant or not other.is_constant or np.ndim(other.offset):
        return None
    bound = float(other.offset) - value.after
    if value.rounded and bound != round(bound):
        return None
    pick = max if least else min
    return replace(value, low=pick(value.low, bound), high=pick(value.high, bound))


def _scaled(made: Simplified, value: Line, factor: _Number) -> Line:
    if value.is_constant:
        return replace(value, offset=np.asarray(value.offset) * factor)
    if value.rounded or (np.ndim(factor) and not value.is_open):
        value = made.settled(value)
    slope, offset = np.asarray(value.slope) * factor, np.asarray(value.offset) * factor
    ends = (value.low, value.high)
    if not np.ndim(factor) and not value.is_open:
        ends = tuple(sorted(end * float(factor) for end in ends))  # type: ignore[assignment]
    return replace(value, slope=slope, offset=offset, low=ends[0], high=ends[1])


def _sum(made: Simplified, one: Line, other: Line) -> Line:
    if one.is_constant:
        one, other = other, one
    if other.is_constant:
        added = np.asarray(other.offset)
        whole = not added.ndim and float(added) == round(float(added))
        if (one.rounded and not whole) or (added.ndim and not one.is_open):
            one = made.settled(one)
        if one.rounded:
            return replace(one, after=one.after + float(added))
        shift = 0.0 if one.is_open else float(added)
        return replace(one, offset=one.offset + added, low=one.low + shift, high=one.high + shift)
    one, other = (v if v.is_open else made.settled(v) for v in (one, other))
    rest = made.make(replace(other, offset=np.asarray(other.offset) + one.offset))
    return Line(base=made.make(one, added=rest))
