"""What a loop is, where it counts up to a number that is known."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Counted", "blocks", "constant_of", "counted", "last", "turns"]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A loop that counts up by one.

    Attributes:
        counter: which of its values counts.
        start: what it starts with.
        trips: how often the loop turns.
    """

    counter: int
    start: int
    trips: int


def blocks(loop: Any) -> tuple[Any, Any]:
    """The block of the condition and the block of the body."""
    condition, body = (next(iter(region.blocks)) for region in loop.regions)
    return condition, body


def last(block: Any) -> Any:
    """The operation that ends a block."""
    return list(block.operations)[-1].operation


def counted(loop: Any) -> Counted | None:
    """How a `stablehlo.while` counts up to a constant; None for any other."""
    condition, body = blocks(loop)
    test = _made_by(last(condition).operands[0], "stablehlo.compare")
    if test is None or "LT" not in str(test.attributes["comparison_direction"]):
        return None
    counters = [i for i, argument in enumerate(condition.arguments) if argument == test.operands[0]]
    if len(counters) != 1:
        return None
    (counter,) = counters
    step = _made_by(last(body).operands[counter], "stablehlo.add")
    if step is None or body.arguments[counter] not in list(step.operands):
        return None
    by = [value for value in step.operands if value != body.arguments[counter]]
    numbers = [constant_of(value) for value in (test.operands[1], loop.operands[counter], *by)]
    if len(numbers) != 3 or numbers[2] != 1 or numbers[0] is None or numbers[1] is None:
        return None
    return Counted(counter=counter, start=numbers[1], trips=max(0, numbers[0] - numbers[1]))


def turns(loop: Any) -> int | None:
    """How often a `stablehlo.while` or `scf.for` turns; None where only a call knows."""
    from iree.compiler import ir

    if loop.name == "stablehlo.while":
        known = counted(loop)
        return None if known is None else known.trips
    made = [_made_by(value, "arith.constant") for value in list(loop.operands)[:3]]
    if any(op is None for op in made):
        return None
    first, end, step = (ir.IntegerAttr(op.attributes["value"]).value for op in made)
    return max(0, -int((first - end) // step))


def _made_by(value: Any, name: str) -> Any:
    from iree.compiler import ir

    if isinstance(value.owner, ir.Block) or value.owner.operation.name != name:
        return None
    return value.owner.operation


def constant_of(value: Any) -> int | None:
    """The one number of an integer constant."""
    from iree.compiler import ir

    from edgec.toolchain.ir.literal import attribute_of

    op = _made_by(value, "stablehlo.constant")
    attribute = None if op is None else attribute_of(op)
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        return None
    return int(attribute.get_splat_value().value) if attribute.is_splat else None
