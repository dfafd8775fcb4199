"""What in a loop is a number that its turn alone decides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.write import create
from edgec.toolchain.match.loop import blocks, constant_of, last

__all__ = ["OF_NUMBERS", "Counter", "Numbers", "arith", "counters", "limit", "whole"]

_BINARY = {
    "stablehlo.add": "arith.addi",
    "stablehlo.subtract": "arith.subi",
    "stablehlo.multiply": "arith.muli",
    "stablehlo.maximum": "arith.maxsi",
    "stablehlo.minimum": "arith.minsi",
}
_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE")  # in the order of arith's signed ones


@dataclass(frozen=True, kw_only=True)
class Counter:
    """A value of a loop that grows by the same number each turn.

    Attributes:
        place: which of the loop's values.
        step: by how much, above 0.
    """

    place: int
    step: int


def counters(loop: Any) -> Iterator[Counter]:
    """The counters of a `stablehlo.while`: scalars of signless integers."""
    _, body = blocks(loop)
    for place, value in enumerate(last(body).operands):
        step = _grown(value, body.arguments[place]) if _is_number(value.type) else None
        if step is not None and step > 0:
            yield Counter(place=place, step=step)


def limit(loop: Any, known: Sequence[Counter]) -> tuple[Counter, Any] | None:
    """The counter that a loop's test looks at, and what it stays below; None for another test."""
    condition, _ = blocks(loop)
    test = last(condition).operands[0].owner
    if isinstance(test, ir.Block) or test.operation.name != "stablehlo.compare":
        return None
    test = test.operation
    direction = str(test.attributes["comparison_direction"])
    left, right = test.operands if "LT" in direction else reversed(list(test.operands))
    if not ("LT" in direction or "GT" in direction):
        return None
    counter = next((c for c in known if condition.arguments[c.place] == left), None)
    if counter is None:
        return None
    if _inside(right, condition):
        if constant_of(right) is None:
            return None
        with ir.InsertionPoint(loop):
            right = right.owner.operation.clone().operation.results[0]
    return counter, right


def _is_number(kind: Any) -> bool:
    if not isinstance(kind, ir.RankedTensorType) or kind.shape:
        return False
    integer = kind.element_type
    return isinstance(integer, ir.IntegerType) and integer.is_signless and integer.width in (32, 64)


def _inside(value: Any, block: Any) -> bool:
    owner = value.owner
    return bool((owner if isinstance(owner, ir.Block) else owner.operation.block) == block)


def _grown(value: Any, start: Any) -> int | None:
    """By how much a value is above another: a chain of additions of constants."""
    total = 0
    while value != start:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.add":
            return None
        left, right = owner.operation.operands
        for by, rest in ((right, left), (left, right)):
            number = constant_of(by)
            if number is not None:
                total, value = total + number, rest
                break
        else:
            return None
    return total


def arith(name: str, operands: Sequence[Any], kind: Any = None, **attributes: Any) -> Any:
    """An operation of `arith` at the insertion point; its result."""
    return create(name, operands[0].type if kind is None else kind, operands, attributes)


def whole(number: int, kind: Any = None) -> Any:
    """A constant, of `index` where no type is given."""
    kind = ir.IndexType.get() if kind is None else kind
    return arith("arith.constant", [], kind, value=ir.IntegerAttr.get(kind, number))


class Numbers:
    """Scalars of a loop's body as the host computes them, written at the body's beginning.

    Attributes:
        at: where they are written, an `ir.InsertionPoint`.
    """

    def __init__(self, body: Any, at: Any) -> None:
        """Nothing is known yet but what comes from outside `body`, a loop's block."""
        self.body = body
        self.at = at
        self._known: dict[Any, Any] = {}

    def add(self, value: Any, number: Any) -> None:
        """Let a tensor of the body be a number (an integer's `ir.Value`)."""
        self._known[value] = number

    def of(self, value: Any) -> Any | None:
        """The number in a tensor of one integer; None where the device makes it."""
        if value not in self._known:
            self._known[value] = self._made(value)
        return self._known[value]

    def _made(self, value: Any) -> Any | None:
        owner = value.owner
        kind = value.type.element_type
        if not isinstance(kind, ir.IntegerType) or not kind.is_signless:
            return None
        number = constant_of(value)
        if number is not None:
            with self.at:
                return whole(number, kind)
        if isinstance(owner, ir.Block) or not _inside(value, self.body):
            return None
        op = owner.operation
        if op.name == "tensor.from_elements":
            return op.operands[0] if len(op.operands) == 1 else None
        if any(n != 1 for operand in op.operands for n in operand.type.shape):
            return None
        if op.name not in OF_NUMBERS:
            return None
        operands = [self.of(operand) for operand in op.operands]
        if any(operand is None for operand in operands):
            return None
        with self.at:
            if op.name in _BINARY:
                return arith(_BINARY[op.name], operands)
            return _OTHERS[op.name](op, operands, kind)


def _compared(op: Any, operands: list[Any], kind: Any) -> Any | None:
    if "UNSIGNED" in str(op.attributes):
        return None
    direction = str(op.attributes["comparison_direction"])
    number = next(i for i, name in enumerate(_PREDICATES) if f" {name}>" in direction)
    predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    return arith("arith.cmpi", operands, kind, predicate=predicate)


def _converted(op: Any, operands: list[Any], kind: Any) -> Any | None:
    before = operands[0].type
    if before == kind:
        return operands[0]
    if 1 in (before.width, kind.width):
        return None
    return arith("arith.extsi" if before.width < kind.width else "arith.trunci", operands, kind)


def _clamped(op: Any, operands: list[Any], kind: Any) -> Any:
    low, value, high = operands
    return arith("arith.minsi", [arith("arith.maxsi", [value, low]), high])


def _divided(op: Any, operands: list[Any], kind: Any) -> Any | None:
    number = constant_of(op.operands[1])
    return arith("arith.divsi", operands) if number is not None and number > 0 else None


_OTHERS: dict[str, Callable[[Any, list[Any], Any], Any]] = {
    "stablehlo.clamp": _clamped,
    "stablehlo.compare": _compared,
    "stablehlo.convert": _converted,
    "stablehlo.divide": _divided,
    "stablehlo.reshape": lambda op, operands, kind: operands[0],
    "stablehlo.select": lambda op, operands, kind: arith("arith.select", operands, kind),
}

OF_NUMBERS = frozenset({*_BINARY, *_OTHERS})
"""The operations that make numbers of numbers."""
