"""A `stablehlo.while` that counts, written as an `scf.for`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.filling import fresh
from edgec.toolchain.ir.write import create
from edgec.toolchain.match.loop import blocks, constant_of, last
from edgec.toolchain.passes.simplify.host_loops.counters import (
    OF_NUMBERS,
    Counter,
    Numbers,
    arith,
    counters,
    limit,
    whole,
)
from edgec.toolchain.passes.simplify.host_loops.fills import filled_with, is_filled, is_taken

__all__ = ["rewrite"]

_VIEW = "!hal.buffer_view"
_BUFFER = "!hal.buffer"
_STARTS = {"stablehlo.dynamic_slice": 1, "stablehlo.dynamic_update_slice": 2, "tensor.extract": 0}
"""From which operand on the numbers are that the host had better know."""


def rewrite(loop: Any, fills: bool) -> int:
    """Let the host count a loop that counts; 1 if it was done.

    Args:
        loop: a `stablehlo.while`.
        fills: whether an array that it only fills is filled in place.
    """
    known = list(counters(loop))
    found = limit(loop, known)
    if found is None or not all(_is_signless(value.type) for value in loop.operands):
        return 0
    main, bound = found
    first, end = constant_of(loop.operands[main.place]), constant_of(bound)
    # The compiler takes the body of one turn out of its loop, and then cannot order memory that is
    # made, written and read in one piece ("failed to schedule execution partitions").
    if first is not None and end is not None and end - first <= main.step:
        return 0
    _Loop(loop, known, main, bound, fills).write()
    return 1


def _is_signless(kind: Any) -> bool:
    element = kind.element_type
    return not isinstance(element, ir.IntegerType) or bool(element.is_signless)


class _Loop:
    def __init__(
        self, old: Any, known: Sequence[Counter], main: Counter, bound: Any, fills: bool
    ) -> None:
        """Everything in front of the new loop, and it with an empty body."""
        self.old = old
        self.known = known
        self.main = main
        with ir.InsertionPoint(old):
            self.starts = {c.place: _number(old.operands[c.place]) for c in known}
            self.arrays = {
                place: _Array(value)
                for place, value in enumerate(old.operands)
                if fills
                and is_filled(old, place)
                and (is_taken(value) or filled_with(value) is not None)
            }
            self.carried = [n for n in range(len(old.operands)) if n not in self.starts]
            initial = [
                self.arrays[n].first if n in self.arrays else old.operands[n] for n in self.carried
            ]
            end = _number(bound)
            self.range = (self.starts[main.place], end, whole(main.step))
            self.new = ir.Operation.create(
                "scf.for",
                results=[value.type for value in initial],
                operands=[*self.range, *initial],
                regions=1,
            )
            kinds = [ir.IndexType.get(), *(value.type for value in initial)]
            self.block = self.new.regions[0].blocks.append(*kinds)

    def write(self) -> None:
        """Move the body, and put the new loop in the old one's place."""
        self._move()
        results = dict(zip(self.carried, self.new.results, strict=True))
        with ir.InsertionPoint(self.old):
            for place, array in self.arrays.items():
                results[place] = array.taken(results[place])
            for counter in self.known:
                result = self.old.results[counter.place]
                if list(result.uses):
                    results[counter.place] = _tensor(self._after(counter), result.type)
        for place, result in results.items():
            self.old.results[place].replace_all_uses_with(result)
        self.old.erase()

    def _after(self, counter: Counter) -> Any:
        """What a counter is when the loop has ended."""
        first, end, step = self.range
        turns = arith("arith.ceildivsi", [arith("arith.subi", [end, first]), step])
        turns = arith("arith.maxsi", [turns, whole(0)])
        return self._in_turn(counter, turns)

    def _in_turn(self, counter: Counter, turn: Any) -> Any:
        grown = arith("arith.muli", [turn, whole(counter.step)])
        return arith("arith.addi", [self.starts[counter.place], grown])

    def _move(self) -> None:
        _, body = blocks(self.old)
        end = last(body)
        now = dict(zip(self.carried, list(self.block.arguments)[1:], strict=True))
        with ir.InsertionPoint(self.block):
            first, _, step = self.range
            turn = arith("arith.subi", [self.block.arguments[0], first])
            turn = arith("arith.divsi", [turn, step])
            for place, array in self.arrays.items():
                now[place] = array.taken(now[place])
            for counter in self.known:
                kind = body.arguments[counter.place].type
                now[counter.place] = _tensor(self._in_turn(counter, turn), kind)
            mark = whole(0).owner.operation
        numbers = Numbers(self.block, ir.InsertionPoint(mark))
        for counter in self.known:
            made = now[counter.place]
            numbers.add(made, made.owner.operation.operands[0])
        for op in list(body.operations):
            if op.operation != end:
                self.block.append(op)
        _sink_sizes(self.block)
        for place, argument in enumerate(body.arguments):
            argument.replace_all_uses_with(now[place])
        given = list(end.operands)
        _use_numbers(self.block, numbers)
        with ir.InsertionPoint(self.block):
            yielded = [
                self.arrays[place].exported(given[place]) if place in self.arrays else given[place]
                for place in self.carried
            ]
            ir.Operation.create("scf.yield", operands=yielded)


def _sink_sizes(block: Any) -> None:
    """Let a loop's body ask for sizes of arrays itself, and work out what follows from them.

    A size that a body takes from outside is an array of one number for the compiler, which a
    kernel writes; where several loops read it, iree-compile 3.13 loses that kernel.
    """
    operations = [each.operation for each in block.operations]
    mark = operations[0]
    known: dict[Any, Any] = {}
    for op in operations:
        for place, value in enumerate(op.operands):
            if not isinstance(value.owner, ir.Block) and value.owner.operation.block != block:
                with ir.InsertionPoint(mark):
                    size = _sunk(value, known)
                if size is not None:
                    op.operands[place] = size


def _sunk(value: Any, known: dict[Any, Any]) -> Any | None:
    """The same number at the insertion point; None for what does not follow from sizes alone."""
    if value not in known:
        known[value] = _sunk_anew(value, known)
    return known[value]


def _sunk_anew(value: Any, known: dict[Any, Any]) -> Any | None:
    if isinstance(value.owner, ir.Block):
        return None
    made = value.owner.operation
    if made.name == "stablehlo.get_dimension_size":
        return _size(made)
    if made.name not in OF_NUMBERS or made.results[0].type.shape:
        return None
    operands = [_sunk(each, known) for each in made.operands]
    pairs = list(zip(made.operands, operands, strict=True))
    if all(size is None for size in operands):
        return None
    if any(size is None and constant_of(each) is None for each, size in pairs):
        return None
    copy = made.clone()
    for place, size in enumerate(operands):
        if size is not None:
            copy.operands[place] = size
    return copy.results[0]


def _size(asked: Any) -> Any:
    """What a `stablehlo.get_dimension_size` gives; the compiler leaves it in its loop."""
    axis = ir.IntegerAttr(asked.attributes["dimension"]).value
    size = arith("tensor.dim", [asked.operands[0], whole(axis)], ir.IndexType.get())
    return _tensor(create("util.optimization_barrier", size.type, [size]), asked.results[0].type)


def _use_numbers(block: Any, numbers: Numbers) -> None:
    """Let operations of a loop's body start where the host says."""
    for op in [each.operation for each in block.operations]:
        for place in range(_STARTS.get(op.name, len(op.operands)), len(op.operands)):
            value = op.operands[place]
            if isinstance(value.type, ir.RankedTensorType) and not value.type.shape:
                number = numbers.of(value)
                if number is not None:
                    with ir.InsertionPoint(op):
                        op.operands[place] = create("tensor.from_elements", value.type, [number])


class _Array:
    """An array that is filled: its memory is handed on, each turn writes into it."""

    def __init__(self, before: Any) -> None:
        """Written at the insertion point, in front of the loop; `before` is the array there."""
        self.kind = before.type
        taken = is_taken(before)
        self.open_ = [
            arith("tensor.dim", [before, whole(axis)], ir.IndexType.get())
            for axis, size in enumerate(self.kind.shape)
            if size == ir.ShapedType.get_dynamic_size()
        ]
        self.first = self.exported(before if taken else self._fresh(before))

    def _fresh(self, before: Any) -> Any:
        """An array that begins as another in memory that nothing else has.

        Two loops may fill arrays that begin alike, which the compiler would make one: each has a
        number of its own.
        """
        value = _as_integer(filled_with(before))
        kind = ir.RankedTensorType.get(self.kind.shape, value.type)
        made = fresh(value, kind, self.open_)
        if kind == self.kind:
            return made
        parts = ir.DenseI32ArrayAttr.get([1, len(self.open_), len(self.open_)])
        operands = [made, *self.open_, *self.open_]
        return create("flow.tensor.bitcast", self.kind, operands, {"operandSegmentSizes": parts})

    def exported(self, array: Any) -> Any:
        """The memory that an array is in, once it is there."""
        kind = {"source_encoding": ir.TypeAttr.get(self.kind)}
        return create("hal.tensor.export", ir.Type.parse(_VIEW), [array, *self.open_], kind)

    def taken(self, view: Any) -> Any:
        """The array in a memory, which may be written."""
        buffer = create("hal.buffer_view.buffer", ir.Type.parse(_BUFFER), [view])
        return create(
            "hal.tensor.import",
            self.kind,
            [buffer, *self.open_],
            {
                "target_encoding": ir.TypeAttr.get(self.kind),
                "consume": ir.UnitAttr.get(),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(self.open_), 0, 0]),
            },
        )


def _as_integer(value: Any) -> Any:
    """The attribute of a number; of a half's bits, of which the compiler makes no barrier."""
    bits = {ir.F16Type: _f16_bits, ir.BF16Type: _bf16_bits}.get(type(value.type))
    if bits is None:
        return value
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(16), bits(ir.FloatAttr(value).value))


def _f16_bits(number: float) -> int:
    return int(np.float16(number).view(np.int16))


def _bf16_bits(number: float) -> int:
    return int(np.float32(number).view(np.int32)) >> 16


def _number(value: Any) -> Any:
    """The number in a tensor of one integer, an `index`."""
    number = constant_of(value)
    if number is not None:
        return whole(number)
    found = create("tensor.extract", value.type.element_type, [value])
    return arith("arith.index_cast", [found], ir.IndexType.get())


def _tensor(number: Any, kind: Any) -> Any:
    """A tensor of one integer."""
    found = arith("arith.index_cast", [number], kind.element_type)
    return create("tensor.from_elements", kind, [found])
