"""Attention in a program to two dispatches of edgec's kernels: keys packed, then all the rest.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import (
    element_type,
    integers,
    numbers_of,
    shape_of,
)
from edgec.toolchain.ir.views import Digit, Strided, joined, strided
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.attention import (
    Attention,
    View,
    attention_kernel,
    packed_keys,
    packing_kernel,
    scratch_bytes,
)
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["rewrite_attention"]

_MOST_STACK = 96 * 1024  # of the 128 KiB that IREE gives its worker threads
_MOST_BIASES = 2
_LOWEST = -1e4
_UNITS = ("stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.transpose")


class _NoMatch(Exception):
    """What was looked at is no attention, or none that the kernel can do."""


def rewrite_attention(op: Any, library: Library, unit: VectorUnit) -> bool:
    """Replace `op` by kernels if it is the second product of an attention.

    That is softmax(Q K^T * scale + biases) V in f32, however its axes are turned.
    """
    try:
        found = _match(op)
    except _NoMatch:
        return False
    attention = found.attention
    if scratch_bytes(attention, unit) > _MOST_STACK:
        return False
    f32 = ir.F32Type.get()
    sizes = f"{attention.heads[0] * attention.heads[1]}x{attention.queries}x{attention.keys}"
    with ir.InsertionPoint(found.last.owner.operation), op.location:
        keys = library.call(
            f"edgec_keys_{sizes}x{attention.width}",
            packing_kernel("NAME", attention, unit),
            [found.k],
            ir.RankedTensorType.get(packed_keys(attention, unit), f32),
        )
        biases = [bias.make() for bias in found.biases]
        result = library.call(
            f"edgec_attention_{sizes}x{attention.width}",
            attention_kernel("NAME", attention, unit),
            [found.q, keys, found.v, *biases],
            found.last.type,
        )
    found.last.replace_all_uses_with(result)
    return True


@dataclass(frozen=True, kw_only=True)
class _Bias:
    """What is added to the scores: a value, or a choice between zero and a number."""

    value: Any
    number: float | None = None

    def make(self) -> Any:
        """The value to add, in f32."""
        if self.number is None:
            return self.value
        truth = self.value
        kind = ir.RankedTensorType.get(truth.type.shape, ir.F32Type.get())
        zero, low = (
            ir.Operation.create(
                "stablehlo.constant",
                results=[kind],
                attributes={
                    "value": ir.DenseElementsAttr.get_splat(
                        kind, ir.FloatAttr.get(ir.F32Type.get(), number)
                    )
                },
            ).result
            for number in (0.0, self.number)
        )
        return ir.Operation.create(
            "stablehlo.select", results=[kind], operands=[truth, zero, low]
        ).result


@dataclass(frozen=True, kw_only=True)
class _Found:
    attention: Attention
    q: Any
    k: Any
    v: Any
    biases: tuple[_Bias, ...]
    last: Any


def _match(second: Any) -> _Found:
    """Read an attention from its second product.

    Raises:
        _NoMatch: it is none, or has a form that the kernel does not do.
    """
    if not all(
        isinstance(element_type(v), ir.F32Type) for v in (*second.operands, *second.results)
    ):
        raise _NoMatch
    for side in (0, 1):
        shares = _behind(second.operands[side], *_UNITS)
        if _name(shares) == "stablehlo.select":
            truth, empty, shares = shares.owner.operation.operands
            shares = _behind(shares, *_UNITS)
            if _name(shares) != "stablehlo.divide" or splat(empty) != 0:
                raise _NoMatch
            scores = _scores(shares)
            if not _is_all_lowest(truth, scores):
                raise _NoMatch
            return _match_side(second, side, scores, safe=True)
        if _name(shares) == "stablehlo.divide":
            return _match_side(second, side, _scores(shares), safe=False)
    raise _NoMatch


def _match_side(second: Any, side: int, scores: Any, *, safe: bool) -> _Found:
    """Read an attention whose shares are the softmax of `scores`, on one side of `second`."""
    outer = _Product.of(second)
    value, scale, added = _unmasked(scores)
    value = _behind(value, *_UNITS)
    if _name(value) != "stablehlo.dot_general":
        raise _NoMatch
    first = _Product.of(value.owner.operation)
    # Scores and shares must be laid out as the batch's axes, in order, then queries, then keys.
    scored = first.result_axes(0)
    _require_order(value, [*scored.batch, scored.row, scored.column])
    shares = [*outer.batch[side], outer.one(side), *outer.sums[side]]
    _require_order(second.operands[side], shares)
    if outer.sums[side] != [len(shape_of(second.operands[side])) - 1]:
        raise _NoMatch
    q, k = (strided(operand) for operand in first.op.operands)
    v = strided(second.operands[1 - side])
    last, out = _turned(second.results[0])
    axes = [first.axes(0), first.axes(1), outer.axes(1 - side), outer.result_axes(side)]
    views = [q, k, v, out]
    pair = _pair([_digits(view, [*where.batch]) for view, where in zip(views, axes, strict=True)])
    sizes = [_sizes(operand) for operand in (*first.op.operands, second.operands[1 - side])]
    queries, keys = (sizes[i][first.one(i)] for i in (0, 1))
    biases = [_bias(bias, queries, keys, pair) for bias in added]
    placed = [_view(view, where, pair) for view, where in zip(views, axes, strict=True)]
    attention = Attention(
        heads=pair,
        queries=queries,
        keys=keys,
        width=sizes[0][first.sums[0][0]],
        depth=sizes[2][outer.one(1 - side)],
        scale=scale * q.scale * k.scale,
        q=placed[0],
        k=placed[1],
        v=_swapped(placed[2]),
        out=placed[3],
        biases=tuple(view for _, view in biases),
        safe=safe,
    )
    if v.scale != 1.0 or attention.v.column != 1 or attention.out.column != 1:
        raise _NoMatch
    return _Found(
        attention=attention,
        q=q.value,
        k=k.value,
        v=v.value,
        biases=tuple(bias for bias, _ in biases),
        last=last,
    )


@dataclass(frozen=True, kw_only=True)
class _Axes:
    """Which axes of a value name the head, the row and the column."""

    batch: tuple[int, ...]
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class _Product:
    """A `dot_general`: for each side its batch axes, summed axes and own axes."""

    op: Any
    batch: tuple[list[int], list[int]]
    sums: tuple[list[int], list[int]]
    own: tuple[list[int], list[int]]

    @classmethod
    def of(cls, op: Any) -> "_Product":
        numbers = numbers_of(op.attributes["dot_dimension_numbers"])
        batch, sums = (
            tuple(numbers.get(f"{side}_{what}_dimensions", []) for side in ("lhs", "rhs"))
            for what in ("batching", "contracting")
        )
        own = tuple(
            [i for i in range(len(shape_of(v))) if i not in batch[n] and i not in sums[n]]
            for n, v in enumerate(op.operands)
        )
        if len(sums[0]) != 1 or any(None in shape_of(v) for v in op.operands):
            raise _NoMatch
        for operand, axes in zip(op.operands, own, strict=True):
            if not axes or sum(_sizes(operand)[axis] > 1 for axis in axes) > 1:
                raise _NoMatch
        return cls(op=op, batch=batch, sums=sums, own=own)  # type: ignore[arg-type]

    def one(self, side: int) -> int:
        """The side's own axis; others of its own have size one."""
        sizes = _sizes(self.op.operands[side])
        return next((axis for axis in self.own[side] if sizes[axis] > 1), self.own[side][0])

    def axes(self, side: int) -> _Axes:
        """Of an operand: its own axis is the row, the summed one the column."""
        return _Axes(batch=tuple(self.batch[side]), row=self.one(side), column=self.sums[side][0])

    def result_axes(self, side: int) -> _Axes:
        """Of the result: `side`'s own axis is the row, the other's the column."""
        count = len(self.batch[0])
        places = [
            count + self.own[0].index(self.one(0)),
            count + len(self.own[0]) + self.own[1].index(self.one(1)),
        ]
        return _Axes(batch=tuple(range(count)), row=places[side], column=places[1 - side])


def _require_order(value: Any, axes: Sequence[int]) -> None:
    """Check that the axes which matter come in that order, with only sizes of one beside them."""
    sizes = _sizes(value)
    wide = [axis for axis in axes if sizes[axis] > 1]
    if wide != [axis for axis, size in enumerate(sizes) if size > 1]:
        raise _NoMatch


def _is_all_lowest(truth: Any, scores: Any) -> bool:
    """Whether a value says of each row of scores that all of it is minus infinity."""
    for _ in range(6):
        name = _name(truth)
        if name in _UNITS:
            truth = truth.owner.operation.operands[0]
        elif name == "stablehlo.reduce":
            op = truth.owner.operation
            inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
            if inner != ["stablehlo.and", "stablehlo.return"]:
                return False
            truth = op.operands[0]
        elif name == "stablehlo.compare":
            op = truth.owner.operation
            equal = "EQ" in str(op.attributes["comparison_direction"])
            return equal and op.operands[0] == scores and splat(op.operands[1]) == -math.inf
        else:
            return False
    return False


def _scores(shares: Any) -> Any:
    """What a value is the softmax of, along its last axis."""
    powers, sums = shares.owner.operation.operands
    if _name(powers) != "stablehlo.exponential":
        raise _NoMatch
    shifted = powers.owner.operation.operands[0]
    if _reduced(sums, "stablehlo.add") != powers or _name(shifted) != "stablehlo.subtract":
        raise _NoMatch
    scores, most = shifted.owner.operation.operands
    if _reduced(most, "stablehlo.maximum") != scores:
        raise _NoMatch
    return scores


def _reduced(value: Any, body: str) -> Any:
    """What a value is the reduction of along the last axis, repeated along that axis."""
    rank = len(shape_of(value))
    while True:
        name = _name(value)
        if not name:
            raise _NoMatch
        op = value.owner.operation
        if name == "stablehlo.broadcast_in_dim":
            if integers(op, "broadcast_dimensions") != list(range(len(shape_of(op.operands[0])))):
                raise _NoMatch
            value = op.operands[0]
        elif name == "stablehlo.reshape":
            if shape_of(value) != (*shape_of(op.operands[0]), 1):
                raise _NoMatch
            value = op.operands[0]
        elif name == "stablehlo.maximum":
            low = [(splat(v) or 0.0) < _LOWEST for v in op.operands]
            if True not in low:
                raise _NoMatch
            value = op.operands[1 - low.index(True)]
        elif name == "stablehlo.reduce":
            inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
            if inner != [body, "stablehlo.return"] or integers(op, "dimensions") != [rank - 1]:
                raise _NoMatch
            start = splat(op.operands[1])
            wanted = (
                start == 0 if body == "stablehlo.add" else start is not None and start < _LOWEST
            )
            if not wanted or len(op.operands) != 2:
                raise _NoMatch
            return op.operands[0]
        else:
            raise _NoMatch


def _unmasked(value: Any) -> tuple[Any, float, list[_Bias]]:
    """Scores before scale, biases and masks; the scale; what was added, as it stands."""
    scale = 1.0
    added: list[_Bias] = []
    while True:
        name = _name(value)
        operands = list(value.owner.operation.operands) if name else []
        if name in ("stablehlo.multiply", "stablehlo.divide"):
            number = splat(operands[1])
            rest = operands[0]
            if number is None and name == "stablehlo.multiply":
                number, rest = splat(operands[0]), operands[1]
            if not number or (added and _is_far(rest)):
                raise _NoMatch
            scale = scale * number if name == "stablehlo.multiply" else scale / number
            value = rest
        elif name == "stablehlo.add":
            near = [_leads_to_product(v) for v in operands]
            if near.count(True) != 1 or scale != 1.0:
                raise _NoMatch
            added.append(_Bias(value=operands[near.index(False)]))
            value = operands[near.index(True)]
        elif name == "stablehlo.select":
            truth, rest, low = operands
            number = splat(low)
            if number is None or number > _LOWEST or scale != 1.0 or not shape_of(truth):
                raise _NoMatch
            added.append(_Bias(value=truth, number=number))
            value = rest
        elif name in _UNITS and _is_unit(value.owner.operation):
            value = operands[0]
        else:
            break
        if len(added) > _MOST_BIASES:
            raise _NoMatch
    return value, scale, added


def _is_far(value: Any) -> bool:
    """Whether biases still stand before this value, which a scale outside them would multiply."""
    while (name := _name(value)) in (*_UNITS, "stablehlo.multiply", "stablehlo.divide"):
        operands = list(value.owner.operation.operands)
        value = operands[1] if name == "stablehlo.multiply" and splat(operands[0]) else operands[0]
    return _name(value) != "stablehlo.dot_general"


def _leads_to_product(value: Any) -> bool:
    seen = 0
    while _name(value) and seen < 8:
        if _name(value) == "stablehlo.dot_general":
            return True
        name, operands = _name(value), list(value.owner.operation.operands)
        if name == "stablehlo.select":
            value = operands[1]
        elif name in ("stablehlo.multiply", "stablehlo.divide", *_UNITS) and operands:
            swapped = name == "stablehlo.multiply" and splat(operands[0]) is not None
            value = operands[1] if swapped else operands[0]
        elif name == "stablehlo.add":
            return any(_leads_to_product(v) for v in operands)
        else:
            return False
        seen += 1
    return False


def _bias(bias: _Bias, queries: int, keys: int, pair: tuple[int, int]) -> tuple[_Bias, View]:
    """The smallest value that is repeated to the scores' shape, and where its elements lie."""
    shape = _sizes(bias.value)
    if len(shape) < 2 or shape[-2:] != [queries, keys]:
        raise _NoMatch
    if math.prod(shape[:-2]) != pair[0] * pair[1]:
        raise _NoMatch
    axes: list[int | None] = list(range(len(shape)))  # of the source, for each axis of the scores
    source = bias.value
    while _name(source) == "stablehlo.broadcast_in_dim":
        op = source.owner.operation
        where = integers(op, "broadcast_dimensions")
        sizes = _sizes(op.operands[0])
        last = axes[-1]
        if last not in where or sizes[where.index(last)] != shape[-1]:
            break  # the keys must stay neighbours
        axes = [where.index(a) if a in where and sizes[where.index(a)] > 1 else None for a in axes]
        source = op.operands[0]
    sizes = _sizes(source)
    steps = [0 if a is None else math.prod(sizes[a + 1 :]) for a in axes]
    if steps[-1] != 1:
        raise _NoMatch
    digits = [
        Digit(size=size, step=step)
        for size, step in zip(shape[:-2], steps[:-2], strict=True)
        if size > 1
    ]
    outer, inner = _two(joined(digits), pair)
    view = View(size=math.prod(sizes), outer=outer, inner=inner, row=steps[-2], column=1)
    return _Bias(value=source, number=bias.number), view


def _digits(view: Strided, axes: Sequence[int]) -> tuple[Digit, ...]:
    return joined([digit for axis in axes for digit in view.axes[axis]])


def _pair(batches: Sequence[tuple[Digit, ...]]) -> tuple[int, int]:
    """The two indices that name a head: the split that some view needs."""
    longest = max(batches, key=len)
    if len(longest) > 2:
        raise _NoMatch
    sizes = [1, 1, *(digit.size for digit in longest)]
    return (sizes[-2], sizes[-1])


def _two(digits: Sequence[Digit], pair: tuple[int, int]) -> tuple[int, int]:
    """The steps of the two indices that name a head."""
    if math.prod(digit.size for digit in digits) != pair[0] * pair[1]:
        raise _NoMatch
    if len(digits) == 2 and [digit.size for digit in digits] == list(pair):
        return digits[0].step, digits[1].step
    if len(digits) == 1:
        return digits[0].step * pair[1], digits[0].step
    if digits:
        raise _NoMatch
    return 0, 0


def _view(view: Strided, axes: _Axes, pair: tuple[int, int]) -> View:
    outer, inner = _two(_digits(view, axes.batch), pair)
    rows, columns = (joined(view.axes[axis]) for axis in (axes.row, axes.column))
    if len(rows) > 1 or len(columns) > 1:
        raise _NoMatch
    return View(
        size=math.prod(_sizes(view.value)),
        start=view.start,
        outer=outer,
        inner=inner,
        row=rows[0].step if rows else 0,
        column=columns[0].step if columns else 1,
    )


def _swapped(view: View) -> View:
    """Of the values: the keys are rows, what the product keeps are columns."""
    return View(
        size=view.size,
        start=view.start,
        outer=view.outer,
        inner=view.inner,
        row=view.column,
        column=view.row or 1,
    )


def _turned(value: Any) -> tuple[Any, Strided]:
    """Follow a result through what alone uses it and only moves its elements.

    Returns:
        The last such value whose order can be told, and where the elements of `value` lie in it.
    """
    sizes = _sizes(value)
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    whole = tuple(
        (Digit(size=size, step=step),) if size > 1 else ()
        for size, step in zip(sizes, steps, strict=True)
    )
    best = (value, Strided(value=value, start=0, axes=whole))
    last = value
    while len(uses := list(last.uses)) == 1:
        op = uses[0].owner.operation
        moves = op.name in ("stablehlo.transpose", "stablehlo.reshape")
        if not moves and not (op.name == "stablehlo.broadcast_in_dim" and _is_unit(op)):
            break
        last = op.results[0]
        back = strided(last, until=value)
        axes = None if back.value != value else _inverse(back, sizes, steps)
        if axes is not None:
            best = (last, Strided(value=last, start=0, axes=axes))
    return best


def _inverse(
    back: Strided, sizes: Sequence[int], steps: Sequence[int]
) -> tuple[tuple[Digit, ...], ...] | None:
    """From where a value's elements lie in a dense one, where that one's lie in the value."""
    runs: list[tuple[int, int, int]] = []  # step in the dense one, size, step in the value
    step = 1
    for digits in reversed(back.axes):
        for digit in reversed(digits):
            runs.append((digit.step, digit.size, step))
            step *= digit.size
    runs.sort(reverse=True)
    axes = []
    for size, dense in zip(sizes, steps, strict=True):
        mine = [run for run in runs if dense <= run[0] < dense * size] if size > 1 else []
        if math.prod(run[1] for run in mine) != size:
            return None
        axes.append(joined([Digit(size=n, step=there) for _, n, there in mine]))
    return tuple(axes)


def _sizes(value: Any) -> list[int]:
    return [size or 0 for size in shape_of(value)]


def _is_unit(op: Any) -> bool:
    """Whether an operation only adds, drops or moves axes of size one, or regroups the batch."""
    before, after = _sizes(op.operands[0]), _sizes(op.results[0])
    if op.name == "stablehlo.transpose":
        order = [axis for axis in integers(op, "permutation") if before[axis] > 1]
        return order == sorted(order)
    if op.name == "stablehlo.broadcast_in_dim":
        where = integers(op, "broadcast_dimensions")
        if where != sorted(where):
            return False
    if op.name == "stablehlo.reshape" and len(before) > 2 and before[-2:] == after[-2:]:
        return True
    return [n for n in before if n != 1] == [n for n in after if n != 1]


def _behind(value: Any, *names: str) -> Any:
    """The value before operations of these names that only add or drop axes of size one."""
    while _name(value) in names and _is_unit(value.owner.operation):
        value = value.owner.operation.operands[0]
    return value


def _name(value: Any) -> str:
    return "" if isinstance(value.owner, ir.Block) else str(value.owner.operation.name)
