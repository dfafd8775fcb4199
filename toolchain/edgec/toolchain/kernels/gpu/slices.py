"""Slices at places that the device computes to dispatches of kernels, read as well as written.

The compiler's own take their places as numbers of the host's, and so does its gather of one row. So
the host waits for the device in the middle of a call, and what follows is recorded anew each time.
The kernels read a place where it lies. Two updates at one place, as of keys and values, go into one
dispatch, with the turn by their position of keys, and of the queries that go with them.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.known import evaluated
from edgec.toolchain.ir.read import element_type, integers, is_dynamic, numbers_of
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.gpu.dispatches import replace, written_into
from edgec.toolchain.kernels.gpu.moves import MOST_AXES, MOST_STARTS, Mover, Part, Place
from edgec.toolchain.kernels.gpu.turns import Turns
from edgec.toolchain.kernels.spec import Declined, Kernel, Work
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.rotary import Rotary

__all__ = ["place_slices"]

_UPDATE = "stablehlo.dynamic_update_slice"
_SLICE = "stablehlo.dynamic_slice"
_GATHER = "stablehlo.gather"
_NUMBERS = ("i8", "i16", "i32", "i64")
_MOST_STEPS = 8
"""Operations before a start that are compared with those before another."""


@dataclass(frozen=True, kw_only=True)
class _Slice:
    """A slice of an array.

    Attributes:
        op: the operation that reads or writes it.
        place: where it lies.
    """

    op: Any
    place: Place

    def fits(self, other: "_Slice") -> bool:
        """Whether both are at one place of arrays of one kind."""
        one, two = self.place, other.place
        return (
            self.op.block == other.op.block
            and self.op.operands[0].type == other.op.operands[0].type
            and _are_apart(self.op.operands[0], other.op.operands[0])
            and (one.base, one.axes) == (two.base, two.axes)
            and len(one.starts) == len(two.starts)
            and all(
                a[1:] == b[1:] and _is_same(a[0], b[0], _MOST_STEPS)
                for a, b in zip(one.starts, two.starts, strict=True)
            )
        )


def place_slices(module: Any, mover: Mover) -> None:
    """Rewrite `module` in place, where a kernel takes a slice or turns rows by their position."""
    waiting, turns = list[_Slice](), Turns(module)
    for op in list(inside(module.operation)):
        found = _read(op, mover.elements)
        if found is None:
            continue
        if isinstance(found, Declined):
            mover.answers.record(op, _what(op), Work(), found)
        elif op.name != _UPDATE:
            _place([found], turns, mover)
        elif waiting and waiting[0].fits(found) and _can_wait(waiting[0].op, op):
            _place([*waiting, found], turns, mover)
            waiting = []
        else:
            if waiting:
                _place(waiting, turns, mover)
            waiting = [found]
    if waiting:
        _place(waiting, turns, mover)
    for rotary in turns.left:
        _turn(rotary, mover)


def _read(op: Any, elements: Collection[str]) -> _Slice | Declined | None:
    """A slice as the kernels see it, or why they take none such; None for any other operation."""
    if op.name == _UPDATE:
        return _slice(op, op.operands[1], list(op.operands)[2:], elements)
    if op.name == _SLICE:
        return _slice(op, op.results[0], list(op.operands)[1:], elements)
    return _row(op, elements) if op.name == _GATHER else None


def _row(op: Any, elements: Collection[str]) -> _Slice | Declined | None:
    """A gather with one index, along one axis; None for any other."""
    array, index = op.operands
    facts = numbers_of(op.attributes["dimension_numbers"])
    if is_dynamic(index) or is_dynamic(array) or math.prod(shape(index)) != 1:
        return None
    if any(facts.get(name) for name in ("operand_batching_dims", "start_indices_batching_dims")):
        return None
    moved = facts["start_index_map"]
    if len(moved) != 1:
        return None
    sizes = integers(op, "slice_sizes")
    starts = [index if axis in moved else 0 for axis in range(len(sizes))]
    return _slice(op, sizes, starts, elements)


def _slice(
    op: Any, part: Any, starts: Sequence[Any], elements: Collection[str]
) -> _Slice | Declined | None:
    """A slice by its sizes, or a value of them, and its starts, numbers or values of one element.

    None where all are known: the compiler does that well.
    """
    array = op.operands[0]
    known = [start if isinstance(start, int) else _known(start) for start in starts]
    if None not in known:
        return None
    if op.block.owner.operation.name != "func.func":
        return Declined(reason="a slice in a loop or branch")
    if is_dynamic(array) or (not isinstance(part, list) and is_dynamic(part)):
        return Declined(reason="a slice whose size is not known")
    sizes = part if isinstance(part, list) else list(shape(part))
    kind = str(element_type(array))
    if kind not in elements or not math.prod(sizes) or math.prod(shape(array)) >= 2**31:
        return Declined(reason=f"a slice of {kind}, of nothing or of 2^31 elements")
    base, step, left, axes = 0, 1, [], []
    for axis in reversed(range(len(sizes))):
        size, room = sizes[axis], shape(array)[axis]
        at = known[axis]
        if at is not None:
            base += min(max(at, 0), room - size) * step
        elif room > size:
            left.append((starts[axis], step, room - size))
        axes.append((size, step))
        step *= room
    if any(str(element_type(start)) not in _NUMBERS for start, _, _ in left):
        return Declined(reason="a place of unsigned numbers")
    joined = _joined(axes)
    if len(joined) > MOST_AXES or len(left) > MOST_STARTS:
        return Declined(reason=f"a slice along {len(joined)} axes, {len(left)} of them moving")
    return _Slice(op=op, place=Place(base=base, starts=tuple(left), axes=tuple(joined)))


def _known(start: Any) -> int | None:
    """A start that is a constant, and small enough to be held by an f32."""
    array = evaluated(start)
    return int(array.item()) if array is not None and abs(array.item()) < 2**24 else None


def _what(op: Any) -> str:
    part = op.operands[1] if op.name == _UPDATE else op.results[0]
    return f"{op.name.removeprefix('stablehlo.')}: {part.type}"


def _joined(axes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Axes without those of one element, and those that lie one behind the other as one."""
    joined: list[tuple[int, int]] = []
    for size, step in axes:
        if size == 1:
            continue
        if joined and joined[-1][0] * joined[-1][1] == step:
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, step))
    return joined or [(1, 1)]


def _is_same(one: Any, other: Any, steps: int) -> bool:
    """Whether two values are computed alike from the same."""
    if one == other:
        return True
    if isinstance(one.owner, ir.Block) or isinstance(other.owner, ir.Block) or not steps:
        return False
    a, b = one.owner.operation, other.owner.operation
    facts = [{name: each.attributes[name] for name in each.attributes} for each in (a, b)]
    alike = a.name == b.name and one.type == other.type and facts[0] == facts[1]
    if not alike or not a.name.startswith("stablehlo.") or list(a.regions) or len(a.results) > 1:
        return False
    return len(a.operands) == len(b.operands) and all(
        _is_same(x, y, steps - 1) for x, y in zip(a.operands, b.operands, strict=True)
    )


def _are_apart(one: Any, other: Any) -> bool:
    """Whether two arrays stay two values, whatever the compiler finds to be equal.

    What one dispatch writes into two arrays, iree-compile 3.13 has in one piece of memory where
    they are one value, as two arrays of zeros are: of `x[i] = a; y[i] = b` both were then `b`.
    """
    if one.owner == other.owner and not isinstance(one.owner, ir.Block):
        return bool(one != other)
    first, second = _origin(one), _origin(other)
    return first is not None and second is not None and first != second


def _origin(value: Any) -> str | None:
    """The argument, or the state, that an array is made of, by name; None for anything else."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "util.global.load":
            return str(op.attributes["global"])
        is_part = op.name in (_SLICE, "stablehlo.slice", "stablehlo.reshape")
        array = op.operands[0] if is_part else written_into(value)
        if array is None:
            return None
        value = array
    return f"argument {value.arg_number}"


def _can_wait(first: Any, second: Any) -> bool:
    """Whether nothing reads what the first wrote, or writes its array, before the second."""
    users = [use.owner.operation for use in first.results[0].uses]
    users += [
        use.owner.operation
        for use in first.operands[0].uses
        if use.owner.operation not in (first, second)
    ]
    return all(
        user.block == first.block and user != second and second.is_before_in_block(user)
        for user in users
    )


def _place(slices: Sequence[_Slice], turns: Turns, mover: Mover) -> None:
    """Put a kernel in the place of one slice, or of two updates and what is turned with them."""
    last, place = slices[-1].op, slices[0].place
    parts, beside = list[Part](), None
    if last.name == _UPDATE:
        parts = _parts(slices, turns)
        beside = turns.beside(parts, last)
        if beside is not None and not mover.turns(parts, beside):
            beside = None
    rotaries = [part.rotary for part in parts if part.rotary] + ([beside] if beside else [])
    for rotary in rotaries:
        validate(rotary, "rotary position embedding")
    with ir.InsertionPoint(last), last.location:
        if parts:
            results = mover.put(parts, [each.op.operands[0] for each in slices], place, beside)
        else:
            results = mover.take(last.operands[0], last.results[0].type, place)
        for each in slices:
            outcome = results if isinstance(results, Declined) else Kernel(name="slice")
            mover.answers.record(each.op, _what(each.op), Work(), outcome)
        if isinstance(results, Declined):
            return
        turns.done(rotaries)
        olds = [*(each.op.results[0] for each in slices), *([beside.value] if beside else [])]
        for old, new in zip(olds, results, strict=True):
            replace(old, new)


def _parts(slices: Sequence[_Slice], turns: Turns) -> list[Part]:
    """What updates put into their arrays, all of it of one type."""
    parts = [turns.part(each.op, narrows=True) for each in slices]
    if len({str(element_type(part.value)) for part in parts}) > 1:
        parts = [turns.part(each.op, narrows=False) for each in slices]
    return parts


def _turn(rotary: Rotary, mover: Mover) -> None:
    """Put a kernel in the place of a rotary embedding that goes with nothing else."""
    op = rotary.value.owner.operation
    if op.block.owner.operation.name != "func.func":
        return
    validate(rotary, "rotary position embedding")
    with ir.InsertionPoint(op), op.location:
        results = mover.put([], [], Place(), rotary)
        if not isinstance(results, Declined):
            replace(rotary.value, results[0])
