"""Weights that are integers in blocks, each with a scale of its own, as a program writes them out.

Every 8-bit and 4-bit format that people keep weights in is one form: an integer less a zero point,
times the scale of its group of neighbours, plus the group's least value. GGUF's Q8_0, Q4_0 and
Q4_1, ONNX' `MatMulNBits` and `DequantizeLinear` with blocks, and what `edgec quantise` writes
differ in the size of a group, in which of the three numbers there are, and in how two integers of
four bits share a byte. GGUF's K kinds keep the numbers of groups as integers, too, times a factor
of some neighbouring groups. A program writes this out in plain operations, which are read here.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import element_type, integers, shape_of
from edgec.toolchain.ir.views import Digit, Strided, before
from edgec.toolchain.match.expression import Array

__all__ = ["Blocks", "Grouped", "read_block_rows", "read_blocks"]

_FLOATS = ("f32", "f16")
_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim")
_IN_PLACE = ("stablehlo.reshape", "stablehlo.optimization_barrier")
_LOW, _SHIFT = 15, 4


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """Numbers of which one serves a whole group of weights.

    Attributes:
        value: whose memory they are in.
        start: where the first lies.
        output, group: steps from one output, and from one group, to the next.
        factor: of signed bytes, what each is multiplied with; None for floats.
        shared: how many neighbouring groups have one factor.
    """

    value: Any
    start: int
    output: int
    group: int
    factor: "Grouped | None" = None
    shared: int = 1

    @property
    def element(self) -> str:
        """The type of the numbers."""
        return str(element_type(self.value))

    @property
    def values(self) -> tuple[Any, ...]:
        """What is in memory: the numbers, their factors."""
        return (self.value,) if self.factor is None else (self.value, self.factor.value)

    def in_order(self, outputs: int, groups: int) -> bool:
        """Whether they, and their factors, lie in the order of the groups, from the first on."""
        steps = (groups if outputs > 1 else self.output, 1 if groups > 1 else self.group)
        if self.start or (self.output, self.group) != steps:
            return False
        return self.factor is None or self.factor.in_order(outputs, groups // self.shared)

    def spread(self, memory: Sequence[Array], outputs: int, groups: int) -> Array:
        """The numbers as outputs x groups x 1, from those of `values`."""
        found = self._strided(memory[0], outputs, groups)
        if self.factor is None:
            return found
        factors = self.factor._strided(memory[1], outputs, groups // self.shared)
        return np.asarray(found * np.repeat(factors, self.shared, axis=1))

    def _strided(self, numbers: Array, outputs: int, groups: int) -> Array:
        flat = np.ascontiguousarray(numbers).reshape(-1)[self.start :]
        steps = [self.output * flat.itemsize, self.group * flat.itemsize, 0]
        return np.lib.stride_tricks.as_strided(flat, (outputs, groups, 1), steps)


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Weights of outputs x inner: `(code - zero) * scale + least`, each group with its own numbers.

    Attributes:
        value: the floats that they stand for in the program.
        codes: signed bytes, dense; of four bits each of them holds two codes from 0 to 15.
        bits: of a code: 8 or 4.
        span: of four bits, how many neighbours lie in half as many bytes: their first half in the
            low bits, the second in the high ones (2 in ONNX, 32 in GGUF).
        outputs, inner: rows of the weights, and what a product sums.
        group: neighbours along `inner` that share numbers.
        zero: what is taken from every code.
        scale: the factors.
        least: what is added, if anything is.
    """

    value: Any
    codes: Any
    bits: int
    span: int
    outputs: int
    inner: int
    group: int
    zero: float
    scale: Grouped
    least: Grouped | None

    @property
    def groups(self) -> int:
        """Groups of an output."""
        return self.inner // self.group

    @property
    def values(self) -> tuple[Any, ...]:
        """What is in memory: codes, scales, least values, factors behind those that they are of."""
        rest = () if self.least is None else self.least.values
        return (self.codes, *self.scale.values, *rest)

    @property
    def size(self) -> int:
        """Bytes of all that, each number once."""
        total = self.outputs * self.inner * self.bits // 8
        for value in self.values[1:]:
            wide = {"i8": 1, "f16": 2}.get(str(element_type(value)), 4)
            total += wide * math.prod(size or 0 for size in shape_of(value))
        return total

    def __str__(self) -> str:
        """In a few words: `int4 in groups of 32, with least values`."""
        group = "by output" if self.group == self.inner else f"in groups of {self.group}"
        return f"int{self.bits} {group}{', with least values' if self.least else ''}"

    def reference(self, codes: Array, *numbers: Array) -> Array:
        """The weights, outputs x inner, from the numbers of `values`."""
        whole = np.ascontiguousarray(codes).reshape(-1)
        if self.bits == 4:
            pairs = whole.astype(np.int64).reshape(-1, self.span // 2) & 255
            whole = np.concatenate([pairs & _LOW, pairs >> _SHIFT], axis=1)
        grouped = whole.reshape(self.outputs, self.groups, self.group) - self.zero
        scale, least = numbers[: len(self.scale.values)], numbers[len(self.scale.values) :]
        result = grouped * self.scale.spread(scale, self.outputs, self.groups)
        if self.least is not None:
            result = result + self.least.spread(least, self.outputs, self.groups)
        return np.asarray(result.reshape(self.outputs, self.inner))


def read_blocks(value: Any, own: int, inner: int) -> Blocks | None:
    """The blocks that a matrix of weights is made of; None where it is none of blocks.

    Args:
        value: a matrix, one of whose axes is summed over.
        own, inner: which axis counts outputs, and which is summed.
    """
    sizes = [size or 0 for size in shape_of(value)]
    if len(sizes) != 2 or 0 in sizes or str(element_type(value)) != "f32":
        return None
    steps = [sizes[1], 1]
    return _read(value, *(Digit(size=sizes[axis], step=steps[axis]) for axis in (own, inner)))


def read_block_rows(value: Any) -> Blocks | None:
    """The blocks that rows along a value's last axis are made of; None where they are of none."""
    sizes = [size or 0 for size in shape_of(value)]
    if not sizes or 0 in sizes or str(element_type(value)) != "f32":
        return None
    rows = Digit(size=math.prod(sizes[:-1]), step=sizes[-1])
    return _read(value, rows, Digit(size=sizes[-1], step=1))


def _read(value: Any, own: Digit, inner: Digit) -> Blocks | None:
    """The blocks of a value, whose elements are read by outputs and by what is summed."""
    outputs, summed = own.size, inner.size
    view = Strided(value=value, start=0, axes=((own,), (inner,)))
    while (op := _owner(view.value)) is not None and op.name in _MOVES:
        further = before(view)
        if further is None:
            return None
        view = further
    dense = ((Digit(size=outputs, step=summed),), (Digit(size=summed, step=1),))
    if op is None or view.axes != dense or view.start:
        return None
    return _Reader(outputs=outputs, inner=summed).blocks(value, view.value)


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Reads values whose elements lie in memory as outputs x inner."""

    outputs: int
    inner: int

    def blocks(self, value: Any, scaled: Any) -> Blocks | None:
        least = None
        op = _owner(scaled)
        if op is not None and op.name == "stablehlo.add":
            parts = self._parts(op)
            if parts is None:
                return None
            scaled, least = parts
            op = _owner(scaled)
        if op is None or op.name != "stablehlo.multiply":
            return None
        parts = self._parts(op)
        if parts is None:
            return None
        whole, scale = parts
        zero = 0.0
        op = _owner(whole)
        if op is not None and op.name == "stablehlo.subtract":
            number = splat(op.operands[1])
            if number is None:
                return None
            zero, whole = number, op.operands[0]
        found = self._codes(whole)
        numbers = [scale[0], *([] if least is None else [least[0]])]
        groups = {self.inner // each[1] for each in (scale, least) if each is not None}
        if found is None or len(groups) > 1:
            return None
        codes, bits, span = found
        return Blocks(
            value=value,
            codes=codes,
            bits=bits,
            span=span,
            outputs=self.outputs,
            inner=self.inner,
            group=scale[1],
            zero=zero,
            scale=numbers[0],
            least=numbers[1] if least is not None else None,
        )

    def _parts(self, op: Any) -> tuple[Any, tuple[Grouped, int]] | None:
        """Of two operands the one that differs from weight to weight, and the other's groups."""
        for one, other in ((0, 1), (1, 0)):
            found = self._grouped(op.operands[other])
            if found is not None and self._grouped(op.operands[one]) is None:
                return _without_moves(op.operands[one]), found
        return None

    def _grouped(self, value: Any) -> tuple[Grouped, int] | None:
        """Numbers by group, and a group's size; None of what differs within every group."""
        view = Strided(
            value=value,
            start=0,
            axes=(
                (Digit(size=self.outputs, step=self.inner),),
                (Digit(size=self.inner, step=1),),
            ),
        )
        found = _furthest(view, self.inner)
        if found is None:
            return None
        seen, floats, group = found
        return _with_factor(seen, self.inner) or (floats, group)

    def _codes(self, value: Any) -> tuple[Any, int, int] | None:
        """Where the codes are, how wide they are, and their span."""
        value = _without_moves(value)
        op = _owner(value)
        while op is not None and op.name == "stablehlo.convert":
            if not isinstance(element_type(op.operands[0]), ir.IntegerType):
                return None
            value = _without_moves(op.operands[0])
            op = _owner(value)
        if op is not None and op.name == "stablehlo.concatenate":
            return _nibbles(op)
        return (value, 8, 0) if str(element_type(value)) == "i8" else None


def _by_group(view: Strided, inner: int) -> tuple[Grouped, int] | None:
    """A view as numbers by group; None where it has another form, or a number for each weight."""
    outer, along = view.axes
    if len(outer) > 1 or len(along) > 2 or view.scale != 1.0:
        return None
    output = outer[0].step if outer else 0
    match along:
        case (Digit(step=0),):
            step, group = 0, inner
        case (Digit() as many, Digit(step=0) as same):
            step, group = many.step, same.size
        case _:
            return None
    return Grouped(value=view.value, start=view.start, output=output, group=step), group


def _furthest(view: Strided, inner: int) -> tuple[Strided, Grouped, int] | None:
    """Floats by group, in the memory furthest back that has them so, and the view that says so."""
    best: tuple[Strided, Grouped, int] | None = None
    further: Strided | None = view
    while further is not None:
        view = further
        found = _by_group(view, inner)
        if found is not None and found[0].element in _FLOATS:
            best = view, *found
        further = before(view, converts=True)
    return best


def _with_factor(view: Strided, inner: int) -> tuple[Grouped, int] | None:
    """Numbers by group that are bytes times factors of some neighbouring groups."""
    op = _owner(view.value)
    if op is None or op.name != "stablehlo.multiply":
        return None
    for one, other in ((0, 1), (1, 0)):
        small = _bytes_by_group(replace(view, value=op.operands[one]), inner)
        large = _furthest(replace(view, value=op.operands[other]), inner)
        if small is not None and large is not None and large[2] % small[1] == 0:
            shared = large[2] // small[1]
            return replace(small[0], factor=large[1], shared=shared), small[1]
    return None


def _bytes_by_group(view: Strided, inner: int) -> tuple[Grouped, int] | None:
    """Floats by group that are signed bytes in memory; None where they are none."""
    view = _moved(view)
    op = _owner(view.value)
    if op is None or op.name != "stablehlo.convert" or str(element_type(op.operands[0])) != "i8":
        return None
    return _by_group(_moved(replace(view, value=op.operands[0])), inner)


def _moved(view: Strided) -> Strided:
    """The same elements before all that only moves them."""
    while (further := before(view)) is not None:
        view = further
    return view


def _nibbles(op: Any) -> tuple[Any, int, int] | None:
    """The bytes whose low halves come first, and then their high ones, run by run."""
    sizes = [size or 0 for size in shape_of(op.results[0])]
    if len(op.operands) != 2 or integers(op, "dimension") != [len(sizes) - 1]:
        return None
    low, high = (_without_moves(operand) for operand in op.operands)
    first, second = _masked(low), _shifted(high)
    if first is None or second is None or first != second:
        return None
    if str(element_type(first)) != "i8" or sizes[-1] % 2:
        return None
    return first, 4, sizes[-1]


def _masked(value: Any) -> Any | None:
    """What a value is the low four bits of."""
    op = _owner(value)
    if op is None or op.name != "stablehlo.and" or splat(op.operands[1]) != _LOW:
        return None
    return _without_moves(op.operands[0])


def _shifted(value: Any) -> Any | None:
    """What a value is the high four bits of."""
    op = _owner(value)
    name = "stablehlo.shift_right_logical"
    if op is None or op.name != name or splat(op.operands[1]) != _SHIFT:
        return None
    return _without_moves(op.operands[0])


def _without_moves(value: Any) -> Any:
    """A value before reshapes of it, which leave its elements where they are."""
    while (op := _owner(value)) is not None and op.name in _IN_PLACE and len(op.operands) == 1:
        value = op.operands[0]
    return value


def _owner(value: Any) -> Any:
    """The operation that makes a value; None for a block's argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation
