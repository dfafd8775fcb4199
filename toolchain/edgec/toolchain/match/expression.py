"""Element-wise expressions: steps over sums, with what they mean, and where they fall into parts.

Free of the compiler: what a matcher read, in numbers and names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

__all__ = ["Array", "Operand", "Source", "Step", "evaluate_steps", "pieces"]

Array = np.ndarray[Any, np.dtype[Any]]
"""Numbers of any type; here, where no compiler is needed to name them."""


class Source(Enum):
    """Where an operand of a step comes from."""

    SUM = "the sum"
    STEP = "an earlier step, by number"
    ROW = "one value a column, by number"
    TENSOR = "one value a sum, by number"
    SCALAR = "a constant"


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One operand: where it is found, with its number; or a constant's value."""

    source: Source
    number: float = 0.0

    @property
    def place(self) -> int:
        """The step it is, the sum being the one before the first; only of what is inside."""
        return -1 if self.source is Source.SUM else int(self.number)

    @property
    def is_inside(self) -> bool:
        """Whether it is the sum or a step."""
        return self.source in (Source.SUM, Source.STEP)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operation.

    Attributes:
        name: of `ir.elementwise.ELEMENTWISE`, `compare` or `convert`.
        operands: in order.
        kind: the element type of what it gives, as MLIR writes it (`f32`).
        word: what a `compare` asks (`GT`).
    """

    name: str
    operands: tuple[Operand, ...]
    kind: str
    word: str = ""


def evaluate_steps(
    steps: Sequence[Step], total: Array, rows: Sequence[Array] = (), tensors: Sequence[Array] = ()
) -> Array:
    """The last step's value in NumPy; the sum itself without steps.

    Args:
        steps: the expression.
        total: the sums, as f64.
        rows: what broadcasts along the last axis of `total`.
        tensors: of the same shape as `total`.
    """
    from edgec.toolchain.ir.elementwise import COMPARISONS, ELEMENTWISE

    done: list[Array] = []

    def value(operand: Operand) -> Any:
        match operand.source:
            case Source.SUM:
                return total
            case Source.STEP:
                return done[int(operand.number)]
            case Source.ROW:
                return rows[int(operand.number)]
            case Source.TENSOR:
                return tensors[int(operand.number)]
            case Source.SCALAR:
                return np.float64(operand.number)

    with np.errstate(all="ignore"):
        for step in steps:
            operands = [value(operand) for operand in step.operands]
            if step.name == "compare":
                got = COMPARISONS[step.word](*operands)
            elif step.name == "convert":
                (got,) = operands
            else:
                got = ELEMENTWISE[step.name](*operands)
            done.append(np.asarray(got))
    return done[-1] if done else total


def pieces(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    """The steps cut wherever all that follows reads nothing before but the newest value.

    Each piece's steps read, from inside, the newest value before it as the sum and each other by
    their numbers in the piece.
    """
    closed = [True] * len(steps)
    for number, step in enumerate(steps):
        for operand in step.operands:
            if operand.is_inside:
                for between in range(operand.place + 1, number):
                    closed[between] = False
    found: list[tuple[Step, ...]] = []
    first = 0
    for number in range(len(steps)):
        if closed[number]:
            found.append(tuple(_moved(step, first) for step in steps[first : number + 1]))
            first = number + 1
    return found


def _moved(step: Step, first: int) -> Step:
    """A step whose numbers count from `first` on; what was before that is the sum."""
    operands = tuple(
        operand
        if not operand.is_inside
        else Operand(source=Source.SUM)
        if operand.place < first
        else Operand(source=Source.STEP, number=operand.place - first)
        for operand in step.operands
    )
    return Step(name=step.name, operands=operands, kind=step.kind, word=step.word)
