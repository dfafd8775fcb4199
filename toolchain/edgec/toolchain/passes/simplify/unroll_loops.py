"""Loops that count to a fixed number: constants are moved out, steps are put together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.loop import blocks, counted, last
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["UnrollLoops", "free_constants"]

_BRANCHES = ("stablehlo.if", "stablehlo.case")
_MOST_STEPS = 25
_MOST_OPERATIONS = 1500  # of all loops together; each takes the compiler about a millisecond


@dataclass(frozen=True, kw_only=True)
class UnrollLoops:
    """Several steps of a counting loop become one, and its constants are no longer handed around.

    A recurrent network is a loop of small operations (`jax.lax.scan`). Each turn of it costs the
    runtime a submission and a wait, which is more than the work: 36 of 72 microseconds in an LSTM
    of width 256. And JAX hands weights through the loop as if they changed, so that no pass sees
    that they are constants. Here a value that a loop returns as it got it is used from outside,
    and a loop with a known count takes up to 25 steps a turn, fewer where a program's loops are
    many or long; what is left over of a count without a good divisor stands after the loop. A loop
    with branches in its body keeps its steps: iree-compile 3.13 does not follow many of them in one
    turn ("failed to solve for timepoint coverage").

    Measured: an LSTM of two layers and 100 steps, 7.2 ms before and 2.6 after on one core.
    """

    name = "unroll-loops"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "UnrollLoops | None":
        """For StableHLO with loops at -O2 and above."""
        needed = situation.is_stablehlo and "stablehlo.while" in situation.operations
        return cls() if needed and situation.level >= 2 else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many loops changed."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            loops = [op for op in inside(module.operation) if op.name == "stablehlo.while"]
            size = sum(_size(loop) for loop in loops if counted(loop) is not None)
            most = _MOST_OPERATIONS // max(1, size)
            count = 0
            for loop in reversed(loops):  # inner ones first
                count += free_constants(loop) + _unroll(loop, most) > 0
            return count


def free_constants(loop: Any) -> int:
    """Use from outside what the body returns as it got it."""
    condition, body = blocks(loop)
    count = 0
    for index, value in enumerate(last(body).operands):
        argument = body.arguments[index]
        if value != argument or len(list(argument.uses)) == 1:
            continue
        outside = loop.operands[index]
        terminator = last(body)
        argument.replace_all_uses_with(outside)
        terminator.operands[index] = argument
        condition.arguments[index].replace_all_uses_with(outside)
        count += 1
    return count


def _size(loop: Any) -> int:
    """How many operations a step has."""
    _, body = blocks(loop)
    return sum(1 + sum(1 for _ in inside(op.operation)) for op in body.operations)


def _unroll(loop: Any, most: int) -> int:
    """Put several steps into one turn, those left over after the loop; 1 if it was done."""
    from iree.compiler import ir

    known = counted(loop)
    trips = 0 if known is None else known.trips
    if trips == 1:
        _open(loop)
        return 1
    _, body = blocks(loop)
    steps = [op.operation for op in body.operations]
    factor = _factor(trips, min(_MOST_STEPS, trips, most))
    if known is None or factor == 1 or any(step.name in _BRANCHES for step in _deep(steps)):
        return 0
    left = trips % factor
    if left:
        _end_at(loop, known.start + trips - left)
        following = list(loop.block.operations)
        after = following[following.index(loop) + 1]
        with ir.InsertionPoint(after):
            results = _repeat(body, steps, list(loop.results), left)
        written = [op for op in loop.block.operations if op not in following]
        inner = {each for op in written for each in (op, *inside(op.operation))}
        for old, new in zip(loop.results, results, strict=True):
            for use in list(old.uses):
                if use.owner not in inner:
                    use.owner.operation.operands[use.operand_number] = new
    terminator = steps[-1]
    with ir.InsertionPoint(terminator):
        results = _repeat(body, steps, list(terminator.operands), factor - 1)
    for place, value in enumerate(results):
        terminator.operands[place] = value
    if trips - left == factor:
        _open(loop)
    return 1


def _deep(steps: list[Any]) -> Iterator[Any]:
    for step in steps:
        yield step
        yield from inside(step)


def _open(loop: Any) -> None:
    """Put the body of a loop of one turn in its place."""
    _, body = blocks(loop)
    for argument, value in zip(body.arguments, loop.operands, strict=True):
        argument.replace_all_uses_with(value)
    *steps, end = [op.operation for op in body.operations]
    for step in steps:
        step.move_before(loop)
    for result, value in zip(loop.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    loop.erase()


def _factor(trips: int, most: int) -> int:
    """How many steps a turn takes: a divisor of the count, unless that would be less than half."""
    divisor = next((n for n in range(most, 1, -1) if trips % n == 0), 1)
    return divisor if 2 * divisor >= most else most


def _end_at(loop: Any, bound: int) -> None:
    """Let a counted loop end earlier."""
    from iree.compiler import ir

    condition, _ = blocks(loop)
    test = last(condition).operands[0].owner.operation
    kind = test.operands[1].type
    number = ir.IntegerAttr.get(kind.element_type, bound)
    with ir.InsertionPoint(test):
        test.operands[1] = ir.Operation.create(
            "stablehlo.constant",
            results=[kind],
            attributes={"value": ir.DenseElementsAttr.get_splat(kind, number)},
        ).results[0]


def _repeat(body: Any, steps: list[Any], values: list[Any], times: int) -> list[Any]:
    """Write the steps of a body again, at the insertion point; what the last of them return.

    Args:
        body: the block.
        steps: its operations as they were, the last of which returns.
        values: what the first of them takes.
        times: how often.
    """
    returned = list(steps[-1].operands)
    for _ in range(times):
        now = dict(zip(body.arguments, values, strict=True))
        for op in steps[:-1]:
            copy = op.clone()
            for each in (copy, *inside(copy)):
                for place, operand in enumerate(each.operands):
                    if operand in now:
                        each.operands[place] = now[operand]
            now.update(zip(op.results, copy.results, strict=True))
        values = [now.get(value, value) for value in returned]
    return values
