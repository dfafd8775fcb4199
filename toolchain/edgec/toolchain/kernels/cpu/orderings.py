"""A sort, or the search for the largest few, to a call of the CPU's kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import made_by
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.ordering import Keys, ordering_kernel
from edgec.toolchain.kernels.cpu.source.ordering import Ordering as Rows
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.ordering import Ordering, is_of_each, read_ordering

__all__ = ["place_ordering"]

_KINDS = ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
_MOST = 2**31 - 1


def place_ordering(op: Any, library: Library, unit: VectorUnit, answers: Answers) -> bool:
    """Put a kernel in the place of a `stablehlo.sort` or `chlo.top_k`; whether there is one."""
    found = read_ordering(op)
    if isinstance(found, Declined):
        return False
    kinds = {str(write.element(value)) for value in (*found.operands, found.operands[found.key])}
    if not kinds.issubset(_KINDS) or found.sizes[found.axis] > _MOST or not all(found.sizes):
        return False
    answers.record(op, str(found), found.work, Kernel(name="ordering"))
    with ir.InsertionPoint(op), op.location:
        results = _results(op, found, library, unit)
    for old, new in zip(op.results, results, strict=True):
        _hand_over(old, new)
    op.erase()
    return True


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


def _results(op: Any, found: Ordering, library: Library, unit: VectorUnit) -> list[Any]:
    """The first ones of each array, in order."""
    sizes, axis = found.sizes, found.axis
    last = [*(at for at in range(len(sizes)) if at != axis), axis]
    back = [last.index(at) for at in range(len(sizes))]
    places = {number for number, value in enumerate(found.operands) if _counts(value, axis)}
    moved = [number for number in range(len(found.operands)) if number not in places]
    if found.key in places:
        moved = [found.key, *moved]
    else:
        moved.remove(found.key)
        moved = [found.key, *moved]
    kinds = [write.element(found.operands[number]) for number in moved]
    i8, i32 = ir.IntegerType.get_signless(8), ir.IntegerType.get_signless(32)
    in_memory = [i8 if str(kind) == "i1" else kind for kind in kinds]
    along = sizes[axis]
    rows = Rows(
        rows=math.prod(sizes) // along,
        length=along,
        kept=found.kept,
        keys=Keys(kind=str(in_memory[0]), order=found.order),
        others=tuple(str(kind) for kind in in_memory[1:]),
    )
    text, own = ordering_kernel("NAME", rows, unit)
    kept = [*(sizes[at] for at in last[:-1]), found.kept]
    word = ir.IntegerType.get_signless(int(rows.keys.word[1:]))
    whole = "sort" if found.kept == along else f"first_{found.kept}"
    made = library.call_all(
        f"edgec_{whole}_{rows.rows}x{along}",
        text,
        [
            write.transpose(write.convert(found.operands[number], kind), last)
            for number, kind in zip(moved, in_memory, strict=True)
        ],
        [
            *(ir.RankedTensorType.get(kept, kind) for kind in (*in_memory, i32)),
            *(
                ir.RankedTensorType.get([size], kind)
                for size, kind in zip(own, (word, i32), strict=False)
            ),
        ],
    )
    results = []
    for number, result in zip(found.moved, op.results, strict=True):
        which = len(moved) if number is None or number not in moved else moved.index(number)
        turned = write.transpose(made[which], back)
        results.append(write.convert(turned, write.element(result)))
    return results


def _counts(value: Any, axis: int) -> bool:
    """Whether a value is a count along the axis, so that its sorted ones are the places."""
    count = made_by(value, "iota")
    return count is not None and write.integers(count, "iota_dimension") == [axis]
