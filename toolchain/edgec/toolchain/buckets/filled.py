"""A program for one size, made to give for any smaller one what it would give at that size.

The arrays of a smaller size lie at the start of those of the larger one; what is behind them is
*filling*, and the elements at the start are *live*. Nearly every operation computes the live
elements of its result from live ones alone. Those that go along an open axis, sums and products
above all, get what changes nothing in place of the filling (`rules`), and so do numbers that hold
the size. A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.buckets.holding import Held
from edgec.toolchain.buckets.sizes import NotFilled, Size, Two
from edgec.toolchain.buckets.steps import counted, learn_all
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.places import place_of
from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.write import binary, broadcast, compare, fill, iota, select, tensor
from edgec.toolchain.ir.write import shape as sizes_of

__all__ = ["Filling", "Step"]

_SCALAR = 32


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operation, the same one of the program for the other size, and how its values grow."""

    op: Any
    twin: Any
    operands: tuple[tuple[Size, ...], ...]
    results: tuple[tuple[Size, ...], ...]
    held: tuple[Held, ...]

    def numbers(self, name: str, default: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """An attribute of integers, for both sizes."""
        return integers(self.op, name, default), integers(self.twin, name, default)

    def open_axes(self, number: int = 0) -> list[int]:
        """The open axes of an operand."""
        return [axis for axis, size in enumerate(self.operands[number]) if size.is_open]

    @property
    def changes(self) -> bool:
        """Whether anything about it follows the size, or is filled up."""
        if any(size.is_open for sizes in (*self.operands, *self.results) for size in sizes):
            return True
        return not _same(self.op, self.twin)


@dataclass(kw_only=True)
class Filling:
    """The new function while it is written, at the insertion point of its block.

    Attributes:
        two: the sizes of the programs that it is made from.
        size: the one it is for.
        least: the least size that it gets.
        live: how much of it is live, a scalar i32.
        rules: what writes an operation that the size changes.
    """

    two: Two
    size: int
    least: int
    live: Any
    rules: "Callable[[Filling, Step], list[Any]]"
    new: dict[Any, Any] = field(default_factory=dict)
    held: dict[Any, dict[int, float]] = field(default_factory=dict)
    _constants: dict[tuple[Any, Any], Any] = field(default_factory=dict)
    _twins: dict[Any, Any] = field(default_factory=dict)
    _lives: dict[Size, Any] = field(default_factory=dict)
    _early: dict[Any, set[int]] = field(default_factory=dict)

    def write(self, function: Any, twin: Any, arguments: Sequence[Any]) -> list[Any]:
        """The operations of a function; the values that it returns.

        Args:
            function: for the size `two.one`, without calls.
            twin: the same for `two.other`.
            arguments: what stands for its arguments, of this size.

        Raises:
            NotFilled: an operation has no rule, or the two are different programs.
        """
        blocks = [list(each.regions[0].blocks) for each in (function, twin)]
        if any(len(each) != 1 for each in blocks):
            raise NotFilled("it has branches between blocks")
        here, there = blocks[0][0], blocks[1][0]
        if len(here.arguments) != len(there.arguments):
            raise NotFilled("the program changes with it")
        self._twins.update(zip(here.arguments, there.arguments, strict=True))
        self.new.update(zip(here.arguments, arguments, strict=True))
        pairs = [
            (one.operation, two.operation)
            for one, two in zip(*(_but_constants(block) for block in (here, there)), strict=False)
        ]
        learn_all(pairs, self.two, self.least)
        for op, other in pairs:
            if op.name == "stablehlo.reduce":
                self._look_ahead(op, other)
        for op, other in pairs:
            try:
                step = self._step(op, other)
                if op.name == "func.return" and other.name == op.name:
                    return [self.new[value] for value in op.operands]
                with op.location:
                    made = self.rules(self, step) if step.changes else self.clone(step)
            except NotFilled as found:
                found.where = found.where or place_of(op)
                raise
            for value, result in zip(op.results, made, strict=True):
                self.new[value] = result
                if self._early.get(value):
                    with op.location:
                        self.new[value] = self.masked(value, self._early[value], -np.inf)
                    self.held.setdefault(value, {}).update(
                        dict.fromkeys(self._early[value], -np.inf)
                    )
        raise NotFilled("the program changes with it")

    def _step(self, op: Any, twin: Any) -> Step:
        sizes = [len(each) for one in (op, twin) for each in (one.operands, one.results)]
        if op.name != twin.name or sizes[:2] != sizes[2:]:
            raise NotFilled("the program changes with it")
        self._take_constants(op, twin)
        for value, other in zip(op.operands, twin.operands, strict=True):
            if value not in self._twins or self._twins[value] != other:
                raise NotFilled("the program changes with it")
        self._twins.update(zip(op.results, twin.results, strict=True))
        pairs = (
            zip(op.operands, twin.operands, strict=True),
            zip(op.results, twin.results, strict=True),
        )
        operands = tuple(self.two.shape_of(*both) for both in pairs[0])
        counts = counted(op, operands, self.two, self.least)
        results = tuple(self.two.shape_of(*both) for both in pairs[1])
        if any(results[0][axis] != size for axis, size in counts.items()):
            raise NotFilled("a size grows otherwise than with it")
        held = tuple(self.held.get(value, {}) for value in op.operands)
        return Step(op=op, twin=twin, operands=operands, results=results, held=held)

    def _take_constants(self, op: Any, twin: Any) -> None:
        """The constants that two operations have, where they are used.

        One may stand for two: a size may be a number that the program has elsewhere, too.
        """
        for value, other in zip(op.operands, twin.operands, strict=True):
            if not all(_is_constant(each) for each in (value, other)):
                continue
            if (value, other) not in self._constants:
                self._twins[value] = other
                step = Step(
                    op=value.owner.operation,
                    twin=other.owner.operation,
                    operands=(),
                    results=(self.two.shape_of(value, other),),
                    held=(),
                )
                with value.owner.operation.location:
                    made = self.rules(self, step) if step.changes else self.clone(step)
                self._constants[value, other] = made[0]
            self._twins[value] = other
            self.new[value] = self._constants[value, other]

    def _look_ahead(self, op: Any, twin: Any) -> None:
        """Scores become minus infinity where they are made, before the softmax reads them twice."""
        inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
        kind = str(op.operands[0].type.element_type)
        # PyTorch's asks for the place, too, and begins with minus infinity.
        placed = len(op.operands) == 4 and "stablehlo.compare" in inner
        greatest = inner == ["stablehlo.maximum", "stablehlo.return"] or (
            placed and splat(op.operands[2]) == -np.inf
        )
        if not greatest or not kind.startswith(("f", "bf")):
            return
        sizes = self.two.shape_of(op.operands[0], twin.operands[0])
        axes = {axis for axis in integers(op, "dimensions") if sizes[axis].is_open}
        if axes and not isinstance(op.operands[0].owner, ir.Block):
            self._early.setdefault(op.operands[0], set()).update(axes)

    # What rules write with

    def operands(self, step: Step) -> list[Any]:
        """What stands for the operands now."""
        return [self.new[value] for value in step.op.operands]

    def clone(self, step: Step, operands: Sequence[Any] | None = None) -> list[Any]:
        """The operation for this size."""
        copy = step.op.operation.clone(ip=ir.InsertionPoint.current)
        for number, value in enumerate(self.operands(step) if operands is None else operands):
            copy.operands[number] = value
        for inner in inside(copy):
            for number, value in enumerate(inner.operands):
                if value in self.new:  # from outside of its region
                    inner.operands[number] = self.new[value]
        for name in list(step.op.attributes):
            own = self._attribute(step.op.attributes[name], step.twin.attributes[name])
            if own is not None:
                copy.attributes[name] = own
        for result, sizes in zip(copy.results, step.results, strict=True):
            if any(size.is_open for size in sizes):
                kind = result.type.element_type
                result.set_type(tensor([size.of(self.size) for size in sizes], kind))
        return list(copy.results)

    def _attribute(self, here: Any, there: Any) -> Any | None:
        """An attribute for this size where the two differ; None where they are equal."""
        if here == there:
            return None
        if isinstance(here, ir.DenseI64ArrayAttr):
            return ir.DenseI64ArrayAttr.get(self._grown(list(here), list(there)))
        if isinstance(here, ir.DenseIntElementsAttr):
            arrays = [np.array(each) for each in (here, there)]
            grown = self._grown(*(list(map(int, each.ravel())) for each in arrays))
            values = np.array(grown, np.int64).reshape(arrays[0].shape)
            return ir.DenseElementsAttr.get(values, type=here.type)
        raise NotFilled("a number in it follows the size")

    def _grown(self, here: list[int], there: list[int]) -> list[int]:
        if len(here) != len(there):
            raise NotFilled("ranks of values change with it")
        return [self.two.size(*both).of(self.size) for both in zip(here, there, strict=True)]

    def alive(self, size: Size) -> Any:
        """How many elements of a size are live, a scalar i32."""
        if size not in self._lives:
            kind = ir.IntegerType.get_signless(_SCALAR)
            if not size.is_open:
                return fill(size.more, (), kind)
            value = self.live
            if size.shift:
                value = binary("add", value, fill(size.shift, (), kind))
            if size.over != 1:
                value = binary("divide", value, fill(size.over, (), kind))
            if size.each != 1:
                value = binary("multiply", value, fill(size.each, (), kind))
            if size.more:
                value = binary("add", value, fill(size.more, (), kind))
            self._lives[size] = value
        return self._lives[size]

    def masked(self, value: Any, axes: Any, filler: Any) -> Any:
        """A value of the old program, now with `filler` behind what is live along some axes.

        Args:
            value: the old value.
            axes: open ones of it.
            filler: a number, or a scalar of its type.
        """
        return self.masked_new(self.new[value], self._sizes(value), axes, filler)

    def masked_new(self, now: Any, sizes: Sequence[Size], axes: Any, filler: Any) -> Any:
        """The same of a new value."""
        kind = now.type.element_type
        if isinstance(filler, (int, float, np.generic)):
            rest = fill(_plain(filler, kind), sizes_of(now), kind)
        else:
            rest = broadcast(filler, sizes_of(now))
        for axis in sorted(axes):
            now = select(self._is_live(sizes[axis], sizes_of(now), axis), now, rest)
        return now

    def _is_live(self, size: Size, sizes: Sequence[int], axis: int) -> Any:
        kind = ir.IntegerType.get_signless(_SCALAR)
        places = iota((sizes[axis],), 0, kind)
        truth = compare("LT", places, broadcast(self.alive(size), (sizes[axis],)))
        return broadcast(truth, sizes, (axis,))

    def _sizes(self, value: Any) -> tuple[Size, ...]:
        return self.two.shape_of(value, self._twins[value])


_CONSTANT = "stablehlo.constant"


def _but_constants(block: Any) -> list[Any]:
    """The operations of a block; constants are looked at where they are used."""
    return [op for op in block.operations if op.operation.name != _CONSTANT]


def _is_constant(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == _CONSTANT


def _plain(number: Any, kind: Any) -> Any:
    if isinstance(kind, ir.IntegerType):
        return bool(number) if kind.width == 1 else int(number)
    return float(number)


def _same(op: Any, twin: Any) -> bool:
    """Whether two operations on equal types are the same, with what is in them."""
    if list(op.attributes) != list(twin.attributes):
        return False
    if any(op.attributes[name] != twin.attributes[name] for name in op.attributes):
        return False
    pairs = zip(inside(op), inside(twin), strict=False)
    return len(list(inside(op))) == len(list(inside(twin))) and all(
        one.name == two.name
        and [v.type for v in one.results] == [v.type for v in two.results]
        and all(
            one.attributes[n] == two.attributes[n] for n in one.attributes if n in two.attributes
        )
        for one, two in pairs
    )
