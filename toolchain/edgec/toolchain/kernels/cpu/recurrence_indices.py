"""The whole numbers that a loop computes with, for all of its turns at once.

A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.elementwise import COMPARISONS, direction
from edgec.toolchain.ir.literal import attribute_of
from edgec.toolchain.match.loop import blocks

__all__ = ["Turns"]

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_BINARY: dict[str, Any] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
}
_SAME = ("stablehlo.convert", "stablehlo.reshape")


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The turns of a loop.

    Attributes:
        count: how many there are.
        known: the values of its body that count, in every turn.
    """

    count: int
    known: dict[Any, _Numbers]

    @classmethod
    def of(cls, loop: Any, count: int) -> "Turns":
        """Of a loop of `count` turns; every value that it counts up by a constant is known."""
        _, body = blocks(loop)
        turn = np.arange(count, dtype=np.int64)
        turns = cls(count=count, known={})
        result = list(body.operations)[-1].operation.operands
        for place, argument in enumerate(body.arguments):
            start = turns.numbers(loop.operands[place])
            after = result[place]
            if start is None or isinstance(after.owner, ir.Block):
                continue
            op = after.owner.operation
            if op.name != "stablehlo.add" or argument not in list(op.operands):
                continue
            others = [turns.numbers(v) for v in op.operands if v != argument]
            if len(others) == 1 and others[0] is not None:
                turns.known[argument] = start + turn * others[0]
        return turns

    def numbers(self, value: Any) -> _Numbers | None:
        """A scalar whole number in every turn; None where that is not known."""
        if value in self.known:
            return self.known[value]
        kind = graph.element(value)
        if isinstance(value.owner, ir.Block) or not isinstance(kind, ir.IntegerType):
            return None
        op = value.owner.operation
        if graph.shape(value) not in ((), (1,)):
            return None
        if op.name == "stablehlo.constant":
            attribute = attribute_of(op)
            if not isinstance(attribute, ir.DenseIntElementsAttr) or not attribute.is_splat:
                return None
            return np.full(self.count, int(attribute.get_splat_value().value), np.int64)
        if op.name == "stablehlo.compare" and not isinstance(
            graph.element(op.operands[0]), ir.IntegerType
        ):
            return None
        operands = [n for n in (self.numbers(v) for v in op.operands) if n is not None]
        if len(operands) != len(op.operands):
            return None
        result: _Numbers | None = None
        match op.name:
            case name if name in _BINARY:
                result = _BINARY[name](*operands)
            case "stablehlo.compare":
                result = COMPARISONS[direction(op)](*operands).astype(np.int64)
            case "stablehlo.select":
                truth, then, otherwise = operands
                result = np.where(truth != 0, then, otherwise)
            case "stablehlo.clamp":
                low, middle, high = operands
                result = np.minimum(np.maximum(middle, low), high)
            case name if name in _SAME:
                result = operands[0]
        return result

    def line(self, value: Any, most: int) -> tuple[int, int] | None:
        """A slice's start kept within 0 and `most`: its first value and its step, if it has one."""
        numbers = self.numbers(value)
        if numbers is None:
            return None
        kept = np.clip(numbers, 0, most)
        first, step = int(kept[0]), int(kept[1] - kept[0])
        even = (kept == first + step * np.arange(self.count)).all()
        return (first, step) if even else None

    def last(self, argument: Any) -> int | None:
        """What a counted value is after the loop."""
        numbers = self.known.get(argument)
        return None if numbers is None else int(2 * numbers[-1] - numbers[-2])
