"""A sort, or the search for the largest few, to what a device's kernel makes of it.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import made_by
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.ordering import Ordering, is_of_each, read_ordering

__all__ = ["OrderRows", "place_ordering"]

_MOST = 2**31 - 1
_WORD = 32
_MOVES = ("reshape", "slice", "transpose", "broadcast_in_dim", "concatenate", "reverse")
OrderRows = Callable[[Ordering, Sequence[Any], Sequence[int]], Sequence[Any] | Declined]
"""From what is ordered, arrays whose last axis is sorted by the first of them, and the shape of
what is kept, to what is kept of each and the places (i32), or why there is no kernel."""


def place_ordering(op: Any, answers: Answers, order: OrderRows) -> bool:
    """Put a kernel in the place of a `stablehlo.sort` or `chlo.top_k`; whether there is one."""
    found = read_ordering(op)
    if isinstance(found, Declined) or not 0 < found.sizes[found.axis] <= _MOST:
        return False
    with ir.InsertionPoint(op), op.location:
        results = _results(op, found, order)
    kernel = results if isinstance(results, Declined) else Kernel(name="order")
    answers.record(op, str(found), found.work, kernel)
    if isinstance(results, Declined):
        return False
    for old, new in zip(op.results, results, strict=True):
        _hand_over(old, new)
    op.erase()
    return True


def _results(op: Any, found: Ordering, order: OrderRows) -> list[Any] | Declined:
    """The first ones of each array, in order."""
    sizes, axis = found.sizes, found.axis
    last = [*(at for at in range(len(sizes)) if at != axis), axis]
    back = [last.index(at) for at in range(len(sizes))]
    others = [value for value in found.operands if not _counts(value, axis)]
    key = found.operands[found.key]
    moved = [key, *(value for value in others if value != key)]
    arrays = [write.transpose(_in_memory(value), last) for value in moved]
    is_wide = getattr(write.element(key), "width", 0) > _WORD
    if is_wide and not found.order.is_unsigned and _was_narrow(key):
        arrays[0] = write.convert(arrays[0], ir.IntegerType.get_signless(_WORD))
    made = order(found, arrays, [*(sizes[at] for at in last[:-1]), found.kept])
    if isinstance(made, Declined):
        return made
    results = []
    for number, result in zip(found.moved, op.results, strict=True):
        value = None if number is None else found.operands[number]
        which = moved.index(value) if value in moved else len(moved)
        turned = write.transpose(made[which], back)
        results.append(write.convert(turned, write.element(result)))
    return results


def _in_memory(value: Any) -> Any:
    """The array in a type that memory has: truths as bytes."""
    kind = write.element(value)
    if isinstance(kind, ir.IntegerType) and kind.width == 1:
        return write.convert(value, ir.IntegerType.get_signless(8))
    return value


def _was_narrow(value: Any) -> bool:
    """Whether a value's 64-bit integers are 32-bit ones (places, say) that were widened."""
    kind = write.element(value)
    if not isinstance(kind, ir.IntegerType) or write.is_unsigned(kind):
        return False
    if kind.width <= _WORD:
        return True
    if (widened := made_by(value, "convert")) is not None:
        return _was_narrow(widened.operands[0])
    moved = next((op for name in _MOVES if (op := made_by(value, name)) is not None), None)
    return moved is not None and all(map(_was_narrow, moved.operands))


def _hand_over(old: Any, new: Any) -> None:
    """Let all that reads an array read the first ones of it, and what is made of each, likewise."""
    if old.type == new.type:
        old.replace_all_uses_with(new)
        return
    for use in list(old.uses):
        user = use.owner.operation
        if not is_of_each(user):  # a slice
            user.operands[use.operand_number] = new
            continue
        result = user.results[0]
        with ir.InsertionPoint(user), user.location:
            kind = write.tensor(write.shape(new), write.element(result))
            _hand_over(result, write.create(user.name, kind, [new], dict(user.attributes.items())))
        user.erase()


def _counts(value: Any, axis: int) -> bool:
    """Whether a value is a count along the axis, so that its sorted ones are the places."""
    count = made_by(value, "iota")
    return count is not None and write.integers(count, "iota_dimension") == [axis]
