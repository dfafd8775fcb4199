"""Moves of rows round an attention's products, put where the attention reads and writes them.

A product does with each row the same, whatever their order. So a move of whole rows (a window
partition, a roll) before the product that makes queries, keys and values may as well follow it, and
one after the product of the results may as well come before it. There the attention takes it along,
if its kernel reads rows where they lie, and no pass over memory is left of it.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.elementwise import elementwise
from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, numbers_of
from edgec.toolchain.ir.rotations import rotation
from edgec.toolchain.ir.rows import row_of
from edgec.toolchain.ir.uses import only_user
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.gpu.dispatches import erase_unused
from edgec.toolchain.match.attention import Attention
from edgec.toolchain.match.description import Array, Description, validate
from edgec.toolchain.match.product import operations_named
from edgec.toolchain.match.results import mover

__all__ = ["move_rows"]


def move_rows(
    module: Any, read: Callable[[Any], Attention | None], takes: Callable[[Attention], bool]
) -> int:
    """Put moves of rows next to the attentions of a module that take them along.

    Args:
        module: an `ir.Module` in StableHLO, rewritten in place.
        read: the attention whose second product an operation is, if it is one.
        takes: whether the device has a kernel for an attention.

    Returns:
        How many products have their rows in another order now.
    """
    found = [op for op in operations_named(module, "stablehlo.dot_general") if read(op) is not None]
    return sum(_move_rows(op, read, takes) for op in found)


def _move_rows(
    op: Any, read: Callable[[Any], Attention | None], takes: Callable[[Attention], bool]
) -> int:
    """The same for one attention; each move is looked for in what the one before it left."""
    count = 0
    for name in ("q", "k", "v", "out"):
        attention = read(op)
        if attention is None or not takes(attention):
            return count
        find = _ahead if name == "out" else _behind
        move = find(getattr(attention, name).value)
        if move is None:
            continue
        validate(move, "rows in another order")
        move.old.replace_all_uses_with(move.new)
        # What is left of the old product reads nothing for a moment, as if it were erased.
        move.product.operands[0] = move.product.operands[1]
        attention = read(op)
        move.product.operands[0] = move.rows
        is_taken = attention is not None and takes(attention)
        if is_taken and getattr(attention, name).value == move.there:
            erase_unused(move.old.owner.operation)
            count += 1
        else:
            # As a pass over memory it stays where it was: before a product it may be the smaller.
            move.new.replace_all_uses_with(move.old)
            erase_unused(move.new.owner.operation)
    return count


@dataclass(frozen=True, kw_only=True)
class _Move(Description):
    """A value, and the same made of rows that a product takes in another order.

    Attributes:
        old, new: the value and the one that takes its place.
        product: the old product.
        rows: its left side.
        there: what the attention reads or writes once it takes the move along.
        read: all that both values are computed from.
    """

    old: Any
    new: Any
    product: Any
    rows: Any
    there: Any
    read: tuple[Any, ...]

    @property
    def operands(self) -> tuple[Any, ...]:
        """Rows, weights, and what is the same for all rows."""
        return tuple(dict.fromkeys(self.read))

    @property
    def results(self) -> tuple[Any, ...]:
        """The old value."""
        return (self.old,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The numbers of the new one."""
        return tuple(evaluate((self.new,), dict(zip(self.operands, inputs, strict=True))))


def _behind(value: Any) -> _Move | None:
    """A value with the moves before its product behind it; None where there are none."""
    rows: list[Any] = []
    steps: list[Any] = []
    at = value
    while not isinstance(at.owner, ir.Block):
        op = at.owner.operation
        steps.insert(0, op)
        if op.name == "stablehlo.dot_general":
            break
        inner = _by_row(op, shape(value)[-1:], rows)
        if inner is None or only_user(inner) is None:
            return None
        at = inner
    if isinstance(at.owner, ir.Block) or not _is_by_row(steps[0]):
        return None
    left, right = steps[0].operands
    moves = list(_moves_before(left))
    if all(op.name == "stablehlo.reshape" for op in moves):
        return None
    source = _moved(moves[0])
    with ir.InsertionPoint(value.owner.operation), value.owner.operation.location:
        made = _again(steps, {left: write.reshape(source, shape(left))})
        new = write.reshape(made, (*shape(source)[:-1], shape(value)[-1]))
        for op in moves:
            new = _moved_so(op, new)
        new = write.reshape(new, shape(value))
    return _Move(
        old=value,
        new=new,
        product=steps[0],
        rows=left,
        there=made,
        read=(source, right, *rows),
    )


def _ahead(value: Any) -> _Move | None:
    """What a product makes of a value, with the moves behind the product before it."""
    left = value
    while (op := only_user(left)) is not None and op.name == "stablehlo.reshape":
        left = op.results[0]
    if op is None or op.name != "stablehlo.dot_general" or not _is_by_row(op):
        return None
    if op.operands[0] != left or shape(left)[-1] != shape(value)[-1]:
        return None
    steps, rows = [op], list[Any]()
    made = op.results[0]
    width = shape(made)[-1:]
    while (op := only_user(made)) is not None and _by_row(op, width, rows) is not None:
        steps.append(op)
        made = op.results[0]
    moves: list[Any] = []
    old = made
    while (op := mover(old, rolls=True)) is not None and _moved(op) is not None:
        moves.append(op)
        old = op.results[0]
    if all(op.name == "stablehlo.reshape" for op in moves):
        return None
    with ir.InsertionPoint(old.owner.operation), old.owner.operation.location:
        moved = write.reshape(left, (*shape(made)[:-1], shape(left)[-1]))
        for op in moves:
            moved = _moved_so(op, moved)
        there = write.reshape(moved, shape(left))
        new = write.reshape(_again(steps, {left: there}), shape(old))
    return _Move(
        old=old,
        new=new,
        product=steps[0],
        rows=left,
        there=there,
        read=(left, steps[0].operands[1], *rows),
    )


def _is_by_row(op: Any) -> bool:
    """Whether a product multiplies each row of its left side with one matrix."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    left, right = (shape(value) for value in op.operands)
    inner = numbers.get("lhs_contracting_dimensions", [])
    return (
        not numbers.get("lhs_batching_dimensions") and inner == [len(left) - 1] and len(right) == 2
    )


def _by_row(op: Any, width: Sequence[int], rows: list[Any]) -> Any | None:
    """The operand whose rows, of this width, an operation takes one by one, each in the same way.

    What it reads for all rows alike is added to `rows`. None where there is none.
    """
    if op.name == "stablehlo.reshape":
        (inner,) = op.operands
        return inner if shape(inner)[-1:] == shape(op.results[0])[-1:] == tuple(width) else None
    if elementwise(op) is None or shape(op.results[0])[-1:] != tuple(width):
        return None
    found = []
    for operand in op.operands:
        if splat(operand) is not None:
            continue
        row = row_of(operand, width[0])
        if row is None:
            found.append(operand)
        else:
            rows.append(row)
    return found[0] if len(found) == 1 else None


def _moves_before(value: Any) -> Iterator[Any]:
    """The operations that only move rows before a value, in the program's order."""
    if isinstance(value.owner, ir.Block):
        return
    op = value.owner.operation
    inner = _moved(op)
    if inner is not None:
        yield from _moves_before(inner)
        yield op


def _moved(op: Any) -> Any | None:
    """The value whose rows an operation moves, each as a whole; None where it does more."""
    match op.name:
        case "stablehlo.reshape":
            (inner,) = op.operands
            return inner if shape(inner)[-1:] == shape(op.results[0])[-1:] else None
        case "stablehlo.transpose":
            order = integers(op, "permutation")
            return op.operands[0] if order and order[-1] == len(order) - 1 else None
        case "stablehlo.concatenate":
            found = rotation(op)
            is_by_row = found is not None and found.axis < len(shape(found.source)) - 1
            return found.source if found is not None and is_by_row else None
    return None


def _moved_so(op: Any, value: Any) -> Any:
    """Rows of another width, moved as an operation moves those of its operand."""
    sizes, width = shape(op.results[0])[:-1], shape(value)[-1]
    if op.name == "stablehlo.transpose":
        return write.transpose(value, integers(op, "permutation"))
    found = rotation(op) if op.name == "stablehlo.concatenate" else None
    if found is None:
        return write.reshape(value, (*sizes, width))
    starts, ends = [0] * len(shape(value)), list(shape(value))
    starts[found.axis] = ends[found.axis] = found.shift
    last = write.slice_(value, starts, shape(value))
    first = write.slice_(value, [0] * len(ends), ends)
    return write.concatenate([last, first], found.axis)


def _again(steps: Sequence[Any], known: Mapping[Any, Any]) -> Any:
    """The result of operations once more, of other values than theirs."""
    values = dict(known)
    for op in steps:
        fresh = op.clone().operation
        for number, operand in enumerate(op.operands):
            fresh.operands[number] = values.get(operand, operand)
        values[op.results[0]] = fresh.results[0]
    return values[steps[-1].results[0]]
