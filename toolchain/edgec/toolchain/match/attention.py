"""Attention as a program computes it, from its second product; what it means, in NumPy.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import element_type, numbers_of, shape_of
from edgec.toolchain.ir.views import Digit, Roll, Strided, dense, joined, strided, through
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description
from edgec.toolchain.match.indices import Index, fewest, refined
from edgec.toolchain.match.results import moved_result
from edgec.toolchain.match.scores import Bias, Mask, Scores, Term, read_scores
from edgec.toolchain.match.softmax import Softmax, read_softmax

__all__ = ["Attention", "Bias", "Mask", "Term", "View", "read_attention", "read_shares"]


@dataclass(frozen=True, kw_only=True)
class View:
    """Where elements lie in the memory of a value: at `start` plus each index times its step.

    Attributes:
        value: whose memory it is, dense.
        start: where the first element lies.
        heads: steps of the indices that name a head.
        rows: the parts of a query's number (of keys and values: of a key's), the outermost first:
            those of a window of an image are its row in the window and its column there.
        column: step along the width; along the keys for what is added to scores.
        rolls: axes of the memory that are turned in themselves before it is read or after it is
            written; whole rows are moved so.
    """

    value: Any
    start: int
    heads: tuple[int, ...]
    rows: tuple[Digit, ...]
    column: int
    rolls: tuple[Roll, ...] = ()

    @property
    def is_even(self) -> bool:
        """Whether each row lies as far from the one before it as any other."""
        return len(self.rows) < 2 and not self.rolls

    @property
    def row(self) -> int:
        """The step from one row to the next, of the innermost part of its number."""
        return self.rows[-1].step if self.rows else 0

    @property
    def size(self) -> int:
        """Elements of the memory."""
        return math.prod(size or 0 for size in shape_of(self.value))

    @property
    def element(self) -> str:
        """The type of the elements (`f16`)."""
        return str(element_type(self.value))

    def read(self, numbers: Array, heads: Sequence[int], rows: int, columns: int) -> Array:
        """The elements out of the numbers of the value, by heads, row and column."""
        memory = np.ascontiguousarray(numbers).reshape(-1)
        for roll in reversed(self.rolls):
            memory = _turned(memory, roll, -roll.shift)
        return self._seen(memory, heads, columns).reshape(*heads, rows, columns)

    def write(self, elements: Array, heads: Sequence[int]) -> Array:
        """The numbers of the value that has these elements, by heads, row and column."""
        memory = np.zeros(self.size)
        place = self._seen(memory, heads, elements.shape[-1])
        place[...] = elements.reshape(place.shape)
        for roll in self.rolls:
            memory = _turned(memory, roll, roll.shift)
        return memory.reshape([size or 0 for size in shape_of(self.value)])

    def _seen(self, memory: Array, heads: Sequence[int], columns: int) -> Array:
        """Elements by heads, the parts of a row, and column."""
        steps = (*self.heads, *(digit.step for digit in self.rows), self.column)
        sizes = (*heads, *(digit.size for digit in self.rows), columns)
        strides = [step * memory.itemsize for step in steps]
        return np.lib.stride_tricks.as_strided(memory[self.start :], sizes, strides)

    def turns_whole_rows(self, heads: Sequence[int], columns: int) -> bool:
        """Whether its rolls move all elements of each row alike."""
        parts = [*zip(heads, self.heads, strict=True), *((d.size, d.step) for d in self.rows)]
        for roll in self.rolls:
            inside = self.start % roll.step + (columns - 1) * self.column
            inside += sum((size - 1) * step for size, step in parts if step < roll.step)
            if inside >= roll.step or any(s % roll.step for _, s in parts if s >= roll.step):
                return False
        return True


def _turned(memory: Array, roll: Roll, by: int) -> Array:
    """Memory with an axis of it turned: what lay at index i lies at i + `by` then."""
    return np.roll(memory.reshape(-1, roll.size, roll.step), by, 1).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class Attention(Description):
    """softmax(scores) V for each head, where scores are scale * Q K^T, changed by some terms.

    A head that several others share keys with has a step of 0 in these: grouped heads are read
    where they lie.

    Attributes:
        heads: how many there are of each index that names a head.
        queries, keys: how many of each.
        width: elements of a query and of a key.
        depth: elements of a value and of a result.
        scale: what the products are multiplied with.
        cap: scores become `cap * tanh(scores)` before any term; 0 where they do not.
        terms: what then becomes of the scores, in order.
        safe: a query whose scores are all minus infinity gets zeros, not NaN.
        q, k, v, out: where these lie; `out.value` is the value to replace.
        shared: whether the weights, too, are used by something else.
    """

    heads: tuple[int, ...]
    queries: int
    keys: int
    width: int
    depth: int
    scale: float
    cap: float
    terms: tuple[Term[View], ...]
    safe: bool
    q: View
    k: View
    v: View
    out: View
    shared: bool = False

    @property
    def count(self) -> int:
        """Heads in all."""
        return math.prod(self.heads)

    @property
    def work(self) -> Work:
        """What its two products compute, and what must be read and written."""
        views = (self.q, self.k, self.v, self.out, *(term.view for term in self.terms))
        sizes = (self.width, self.width, self.depth, self.depth, *(self.keys for _ in self.terms))
        total = 0
        for view, wide in zip(views, sizes, strict=True):
            count = math.prod(n for n, s in zip(self.heads, view.heads, strict=True) if s)
            count *= math.prod(digit.size for digit in view.rows if digit.step)
            count *= wide if view.column else 1
            total += count * max(1, _BITS.get(view.element, 32) // 8)
        flops = 2 * self.count * self.queries * self.keys * (self.width + self.depth)
        return Work(flops=flops, bytes=total)

    def __str__(self) -> str:
        """In a few words: `attention: 12 heads, 197 x 197 x 64, f16`."""
        heads = f"{self.count} head{'s' if self.count > 1 else ''}"
        return f"attention: {heads}, {self.queries} x {self.keys} x {self.width}, {self.q.element}"

    @property
    def operands(self) -> tuple[Any, ...]:
        """The values that it reads, each once."""
        views = (self.q, self.k, self.v, *(term.view for term in self.terms))
        return tuple(dict.fromkeys(view.value for view in views))

    @property
    def results(self) -> tuple[Any, ...]:
        """The value to replace."""
        return (self.out.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The numbers of the result from those of what it reads."""
        numbers = dict(zip(self.operands, inputs, strict=True))

        def seen(view: View, rows: int, columns: int) -> Array:
            return view.read(numbers[view.value], self.heads, rows, columns)

        q, k = seen(self.q, self.queries, self.width), seen(self.k, self.keys, self.width)
        scores = self.scale * (q @ k.swapaxes(-1, -2))
        if self.cap:
            scores = self.cap * np.tanh(scores)
        for term in self.terms:
            scores = term.apply(scores, seen(term.view, self.queries, self.keys))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        if self.safe:
            shares = np.where(np.isneginf(scores).all(-1, keepdims=True), 0.0, shares)
        return (self.out.write(shares @ seen(self.v, self.keys, self.depth), self.heads),)


_MOST_PARTS = 3
"""Of the number of a row in a window: one an axis of the image."""
_BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i1": 8, "i8": 8}


def read_attention(
    second: Any, *, narrow: bool = False, windows: bool = False, kept: bool = False
) -> Attention | None:
    """The attention whose second product an operation is; None where it is none.

    Args:
        second: a `stablehlo.dot_general`.
        narrow: read what was widened before it, and give what its result is narrowed to, if all
            of these have one type: for devices whose units multiply that and sum in f32.
        kept: read keys and values that were widened before it as they are kept, where both are of
            one type (a cache of f16 beside queries of f32).
        windows: read and write rows that lie in windows of an image, and in one that is rolled; all
            rows are even without it (`View.is_even`).
    """
    if narrow:
        found = _read(second, narrow=True, windows=windows)
        views = (found.q, found.k, found.v, found.out) if found else ()
        if len({view.element for view in views}) == 1:
            return found
    if kept:
        found = _read(second, narrow=False, windows=windows, kept=True)
        if found is not None and found.k.element == found.v.element:
            return found
    return _read(second, narrow=False, windows=windows)


def read_shares(second: Any, side: int) -> Softmax | None:
    """The softmax that one side of a product is, along the axis that is summed; None if none."""
    outer = _Product.of(second)
    if outer is None or any(not size for v in second.operands for size in shape_of(v)):
        return None
    return read_softmax(_operand(second, outer, side), len(shape_of(second.results[0])))


def _read(second: Any, *, narrow: bool, windows: bool, kept: bool = False) -> Attention | None:
    """The same, where the types may differ."""
    values = (*second.operands, *second.results)
    if any(not size for value in values for size in shape_of(value)):
        return None
    outer = _Product.of(second)
    for side in (0, 1):
        if outer is None:
            return None
        found = _read_side(second, outer, side, narrow=narrow, windows=windows, kept=kept)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, kw_only=True)
class _Product:
    """A `dot_general` with one summed axis: each side's batch axes, that axis, and its own."""

    batch: tuple[list[int], list[int]]
    sums: tuple[int, int]
    own: tuple[list[int], list[int]]

    @classmethod
    def of(cls, op: Any) -> "_Product | None":
        numbers = numbers_of(op.attributes["dot_dimension_numbers"])
        names = [f"{s}_{w}_dimensions" for w in ("batching", "contracting") for s in ("lhs", "rhs")]
        one, two, *sums = (numbers.get(name, []) for name in names)
        if len(sums[0]) != 1 or len(sums[1]) != 1:
            return None
        ranks = [len(shape_of(v)) for v in op.operands]
        taken = ({*one, *sums[0]}, {*two, *sums[1]})
        own = tuple([i for i in range(n) if i not in t] for n, t in zip(ranks, taken, strict=True))
        return cls(batch=(one, two), sums=(sums[0][0], sums[1][0]), own=(own[0], own[1]))

    def axes(self, side: int) -> list[int]:
        """Of an operand, for each axis of the result: the axis, or -1 where it has none."""
        mine = self.own[side]
        other = [-1] * len(self.own[1 - side])
        return [*self.batch[side], *(mine + other if side == 0 else other + mine)]


def _read_side(
    second: Any, outer: _Product, side: int, *, narrow: bool, windows: bool, kept: bool
) -> Attention | None:
    """An attention whose weights are one side of its second product."""
    result = second.results[0]
    weights = _operand(second, outer, side)
    count = len(shape_of(result))
    softmax = read_softmax(weights, count)
    scores = read_scores(softmax.scores) if softmax and softmax.chosen is None else None
    if softmax is None or scores is None or not _is_whole(scores):
        return None
    columns = [i for i, axis in enumerate(outer.axes(side)) if axis < 0]
    most = _MOST_PARTS if windows else 1
    first = _first(scores, count, narrow=narrow, most=most, kept=kept)
    if first is None:
        return None
    q, k, width = first
    v = strided(
        _operand(second, outer, 1 - side),
        converts=narrow or kept,
        rolls=windows,
        accept=_as_kept(
            kept, lambda view: _is_row(_runs(view, columns)) and len(view.axes[count]) <= most
        ),
    )
    out = moved_result(
        result, lambda view: _is_row(_runs(view, columns)), converts=narrow, rolls=windows
    )
    terms = [
        strided(term.view, accept=lambda view: _is_flat(view.axes[count])) for term in scores.terms
    ]
    views = (out, q, k, v, *terms)
    by_axis: list[list[Index]] = []
    for axis, size in enumerate(shape_of(result)):
        if axis not in columns:
            parts = refined(size or 0, [view.axes[axis] for view in views])
            if parts is None:
                return None
            by_axis.append(parts)
    heads, rows = _rows(by_axis, windows=windows)
    depth = math.prod(shape_of(result)[i] or 0 for i in columns)
    deep = [_runs(view, columns) for view in (out, v)]
    keyed = [view.axes[count] for view in views[4:]]
    if any(len(runs) > 1 for runs in (*deep, *keyed, q.axes[count + 1], k.axes[count + 1])):
        return None
    if max(len(views[n].axes[count]) for n in (2, 3)) > most:
        return None

    def placed(n: int, column: tuple[Digit, ...], by_key: tuple[Digit, ...] = ()) -> View:
        by_query = joined([Digit(size=index.size, step=index.steps[n]) for index in rows])
        return View(
            value=views[n].value,
            start=views[n].start,
            heads=tuple(index.steps[n] for index in heads),
            rows=by_key if n in (2, 3) else by_query,
            column=column[0].step if column else 1,
            rolls=views[n].rolls,
        )

    changed: list[Term[View]] = []
    for n, term in enumerate(scores.terms, 4):
        view = placed(n, views[n].axes[count])
        if isinstance(term, Bias):
            changed.append(Bias(view=view, factor=term.factor * views[n].scale))
        else:
            changed.append(Mask(view=view, keep=term.keep, otherwise=term.otherwise))
    return Attention(
        heads=tuple(index.size for index in heads),
        queries=math.prod(index.size for index in rows),
        keys=weights.axes[count][0].size,
        width=width,
        depth=depth,
        scale=scores.scale * q.scale * k.scale,
        cap=scores.cap,
        terms=tuple(changed),
        safe=softmax.safe,
        q=placed(1, q.axes[count + 1]),
        k=placed(2, k.axes[count + 1], k.axes[count]),
        v=placed(3, deep[1], v.axes[count]),
        out=placed(0, deep[0]),
        shared=_is_shared(second.operands[side]),
    )


def _operand(op: Any, product: _Product, side: int) -> Strided:
    """An operand of the second product by the axes of its result, and then by the keys."""
    sizes = [size or 0 for size in shape_of(op.operands[side])]
    steps = dense(sizes)
    axes = []
    for axis, size in zip(product.axes(side), shape_of(op.results[0]), strict=True):
        axes.append(_run(size or 0, steps[axis] if axis >= 0 else 0))
    axes.append(_run(sizes[product.sums[side]], steps[product.sums[side]]))
    return Strided(value=op.operands[side], start=0, axes=tuple(axes))


def _first(
    scores: Scores, by_key: int, *, narrow: bool, most: int, kept: bool
) -> tuple[Strided, Strided, int] | None:
    """Queries, keys and their width; the width is one axis more."""
    op = scores.product
    inner = _Product.of(op)
    if inner is None or any(not size for v in op.operands for size in shape_of(v)):
        return None
    sides = []
    for side, value in enumerate(op.operands):
        sizes = [size or 0 for size in shape_of(value)]
        steps = dense(sizes)
        view = through(scores.view, value, [steps[a] if a >= 0 else 0 for a in inner.axes(side)])
        if view is None:
            return None
        summed = inner.sums[side]
        width = sizes[summed]
        sides.append(replace(view, axes=(*view.axes, _run(width, steps[summed]))))
    by_keys = [any(digit.step for digit in view.axes[by_key]) for view in sides]
    if by_keys.count(True) != 1:
        return None
    k, q = (sides[by_keys.index(there)] for there in (True, False))
    rolls = most > 1
    q = strided(q, converts=narrow, rolls=rolls, accept=lambda view: len(view.axes[by_key + 1]) < 2)
    k = strided(
        k,
        converts=narrow or kept,
        rolls=rolls,
        accept=_as_kept(
            kept,
            lambda view: len(view.axes[by_key]) <= most and len(view.axes[by_key + 1]) == 1,
        ),
    )
    return (q, k, width) if 1 <= len(k.axes[by_key]) <= most else None


def _as_kept(kept: bool, accept: Callable[[Strided], bool]) -> Callable[[Strided], bool]:
    """Also of a view that none further back is wider: what was rounded on the way counts."""
    if not kept:
        return accept
    least = max(_BITS.values())

    def accepted(view: Strided) -> bool:
        nonlocal least
        bits = _BITS.get(str(element_type(view.value)), 0)
        if bits > least:
            return False
        least = bits
        return accept(view)

    return accepted


def _rows(by_axis: Sequence[Sequence[Index]], *, windows: bool) -> tuple[list[Index], list[Index]]:
    """The indices that name a head, and those that name its query, the outermost first.

    The query's is the longest along which neither keys nor values change: heads that share keys and
    have one query each are the queries of one head. In windows it has several parts.
    """

    def in_order(indices: Sequence[Index]) -> list[Index]:
        return fewest(sorted(indices, key=lambda index: index.steps[0], reverse=True))

    every = [index for indices in by_axis for index in indices]
    found = in_order(every)
    same = [index for index in found if _is_same(index)]
    row = [max(same, key=lambda index: index.size)] if same else []
    if windows:
        parts = [[index for index in indices if _is_same(index)] for indices in by_axis]
        longest = max(parts, key=_count, default=[])
        if _count(longest) > _count(row):
            return in_order([index for index in every if index not in longest]), longest
    return fewest([index for index in found if index not in row]), row


def _is_same(index: Index) -> bool:
    """Whether neither keys nor values change along an index."""
    return index.steps[2] == 0 == index.steps[3]


def _count(indices: Sequence[Index]) -> int:
    return math.prod(index.size for index in indices)


def _run(size: int, step: int) -> tuple[Digit, ...]:
    return (Digit(size=size, step=step),) if size > 1 else ()


def _runs(view: Strided, axes: Sequence[int]) -> tuple[Digit, ...]:
    return joined([digit for axis in axes for digit in view.axes[axis]])


def _is_row(runs: tuple[Digit, ...]) -> bool:
    return not runs or (len(runs) == 1 and runs[0].step == 1)


def _is_flat(runs: tuple[Digit, ...]) -> bool:
    return not runs or (len(runs) == 1 and runs[0].step in (0, 1))


def _is_whole(scores: Scores) -> bool:
    """Whether scores are all that their product computes.

    One that gives keys and values at once is there anyway: a softmax over its keys is no reason
    to compute it again in an attention.
    """
    seen = math.prod(digit.size for axis in scores.view.axes for digit in axis if digit.step)
    return seen >= math.prod(size or 0 for size in shape_of(scores.product.results[0]))


def _is_shared(weights: Any) -> bool:
    """Whether weights are used by anything but the one product."""
    while True:
        if len(list(weights.uses)) != 1:
            return True
        op = weights.owner.operation
        if op.name == "stablehlo.divide":
            return False
        weights = op.operands[2 if op.name == "stablehlo.select" else 0]
