"""Linear maps of a tensor that act on each of its axes alone: resizing, pooling, shifts, repeats.

Such a map is a sum of terms; a term has one matrix for each axis of the source, and an element of
the result is the source's elements weighted by the product of these. Moves, scales and sums of such
maps are such maps again, so that a program is followed operation by operation; terms that differ
along one axis only are added up there. Nothing is sampled: the matrices are the whole meaning.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Separable", "Weights", "identity"]

_Array = np.ndarray[Any, np.dtype[Any]]
Weights = _Array | None
"""For each element along some axes of the result, the weights of the elements along one axis of the
source: the result's sizes, then the source's. None is a matrix that changes nothing."""

_MOST_WEIGHTS = 1 << 22
_MOST_TERMS = 24
_WIDEST_SCALE = 512
_ROUNDING = 1e-6
"""Of factors in f32 that were multiplied with each other by the program."""
_EQUAL = 1e-12
"""Of weights in f64 that are the same but for the order in which they were worked out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Separable:
    """A linear map from one tensor to another, axis by axis.

    Attributes:
        source: the sizes of what is mapped.
        sizes: of the result.
        axes: for each axis of the source, the axes of the result that depend on it, in the order of
            its weights. What no axis of the source gives is repeated.
        terms: what is summed: for each the weights of each axis of the source.
    """

    source: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]
    terms: tuple[tuple[Weights, ...], ...]

    def of(self, values: _Array) -> _Array:
        """What it means: the result for some values of the source, in f64."""
        total = np.zeros(self.sizes)
        first = len(self.sizes)  # numbers below name the result's axes, from here the source's
        given = sorted(axis for axes in self.axes for axis in axes)
        wide = [size if axis in given else 1 for axis, size in enumerate(self.sizes)]
        for term in self.terms:
            names = [
                axes[0] if weights is None and axes else first + axis
                for axis, (axes, weights) in enumerate(zip(self.axes, term, strict=True))
            ]
            operands: list[Any] = [np.asarray(values, np.float64), names]
            for axis, (axes, weights) in enumerate(zip(self.axes, term, strict=True)):
                if weights is not None:
                    operands += [weights, [*axes, first + axis]]
            total += np.einsum(*operands, given, optimize=True).reshape(wide)
        return total

    def holder(self, axis: int) -> int | None:
        """The axis of the source that an axis of the result depends on."""
        return next((i for i, axes in enumerate(self.axes) if axis in axes), None)

    def with_weights(
        self,
        holder: int,
        change: Callable[[_Array], _Array],
        sizes: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
    ) -> "Separable | None":
        """With other weights of one axis of the source, written out; None where they are many."""
        size = self.source[holder]
        own = tuple(self.sizes[axis] for axis in self.axes[holder])
        if (math.prod(own) or 1) * size > _MOST_WEIGHTS:
            return None
        terms = []
        for term in self.terms:
            old = term[holder]
            weights = change(np.eye(size).reshape(*own, size) if old is None else old)
            if weights.size > _MOST_WEIGHTS:
                return None
            terms.append((*term[:holder], weights, *term[holder + 1 :]))
        kept = self.axes[holder] if axes is None else tuple(axes)
        return _normal(
            self.source,
            self.sizes if sizes is None else sizes,
            (*self.axes[:holder], kept, *self.axes[holder + 1 :]),
            terms,
        )

    # Moves

    def transposed(self, order: Sequence[int]) -> "Separable":
        """Axis i of the result becomes what axis `order[i]` was."""
        place = {old: new for new, old in enumerate(order)}
        axes = [tuple(place[axis] for axis in each) for each in self.axes]
        return _normal(self.source, [self.sizes[axis] for axis in order], axes, self.terms)

    def taken(self, axis: int, indices: _Array) -> "Separable | None":
        """The elements of these indices along an axis of the result, which keeps its place."""
        if len(indices) == self.sizes[axis] and (indices == np.arange(len(indices))).all():
            return self
        sizes = (*self.sizes[:axis], len(indices), *self.sizes[axis + 1 :])
        holder = self.holder(axis)
        if holder is None:
            return replace(self, sizes=sizes)
        at = self.axes[holder].index(axis)
        return self.with_weights(holder, lambda weights: weights.take(indices, at), sizes)

    def reshaped(self, sizes: Sequence[int]) -> "Separable | None":
        """The same elements in order with other sizes, where no two axes of the source mix."""
        result: Separable | None = self
        names: dict[int, list[int]] = {}
        for before, after in _runs(self.sizes, sizes):
            holders = {self.holder(axis) for axis in before}
            if len(holders) != 1:
                return None
            (holder,) = holders
            if holder is None:
                continue
            if len(before) != 1 or len(after) != 1:
                at = self.axes[holder].index(before[0])
                parts = [sizes[axis] for axis in after]

                def split(
                    weights: _Array, at: int = at, end: int = at + len(before), parts: Any = parts
                ) -> _Array:
                    return weights.reshape([*weights.shape[:at], *parts, *weights.shape[end:]])

                result = result and result._split(holder, split)
            names[before[0]] = list(after)
            names.update({axis: [] for axis in before[1:]})
        if result is None:
            return None
        axes = [[new for axis in each for new in names[axis]] for each in self.axes]
        return _normal(self.source, sizes, axes, result.terms)

    def _split(self, holder: int, change: Callable[[_Array], _Array]) -> "Separable | None":
        """With weights of other sizes; its axes are no longer those that it says."""
        size = self.source[holder]
        own = [self.sizes[axis] for axis in self.axes[holder]]
        if (math.prod(own) or 1) * size > _MOST_WEIGHTS:
            return None
        terms = []
        for term in self.terms:
            old = term[holder]
            weights = change(np.eye(size).reshape(*own, size) if old is None else old)
            terms.append((*term[:holder], weights, *term[holder + 1 :]))
        return replace(self, terms=tuple(terms))

    def spread(self, sizes: Sequence[int], places: Sequence[int]) -> "Separable":
        """Axis i becomes axis `places[i]` of a result of these sizes; the others repeat it."""
        axes = [tuple(places[axis] for axis in each) for each in self.axes]
        return _normal(self.source, sizes, axes, self.terms)

    def padded(self, axis: int, low: int, high: int, between: int) -> "Separable | None":
        """With zeros around and between the elements along an axis."""
        if not (low or high or between):
            return self
        size = self.sizes[axis]
        full = low + size + max(size - 1, 0) * between + high
        places = low + np.arange(size) * (between + 1)
        inside = (places >= 0) & (places < full)
        sizes = (*self.sizes[:axis], full, *self.sizes[axis + 1 :])
        holder = self.holder(axis)
        if holder is None:
            return None
        at = self.axes[holder].index(axis)

        def put(weights: _Array) -> _Array:
            wide = np.zeros((*weights.shape[:at], full, *weights.shape[at + 1 :]))
            wide[(slice(None),) * at + (places[inside],)] = weights.take(np.flatnonzero(inside), at)
            return wide

        return self.with_weights(holder, put, sizes)

    # Arithmetic

    def scaled(self, factors: _Array) -> "Separable | None":
        """Times known factors of the result's shape, which are a product of one for each axis."""
        parts = _parts(factors, self.axes)
        result: Separable | None = self
        if parts is None:
            return None
        whole, tables = parts
        for holder, table in tables.items():
            same = any(term[holder] is None for term in self.terms)
            if result is None or (same and self.source[holder] > _WIDEST_SCALE):
                return None
            result = result.with_weights(holder, lambda weights: weights * table[..., None])  # noqa: B023
        if result is None or whole == 1:
            return result
        # Where nothing changes yet, the shortest axis takes the number.
        plain = [h for h in range(len(self.source)) if any(t[h] is None for t in result.terms)]
        changed = [h for h in (*tables, *range(len(self.source))) if h not in plain]
        holders = changed or sorted(plain, key=lambda h: self.source[h])
        return result.with_weights(holders[0], lambda weights: weights * whole) if holders else None

    def plus(self, other: "Separable", sign: float = 1.0) -> "Separable | None":
        """The sum of two maps of one source, or their difference."""
        if (self.source, self.sizes, self.axes) != (other.source, other.sizes, other.axes):
            return None
        added = other if sign == 1.0 else other.scaled(np.broadcast_to(np.array(sign), self.sizes))
        return None if added is None else self._with_terms([*self.terms, *added.terms])

    def _with_terms(self, terms: Sequence[tuple[Weights, ...]]) -> "Separable | None":
        """With these terms, those added up that differ along one axis only."""
        kept: list[tuple[Weights, ...]] = []
        waiting = [term for term in terms if not _is_nothing(term)] or list(terms[:1])
        while waiting:
            term = waiting.pop(0)
            for known in kept:
                ratios = [_ratio(*pair) for pair in zip(known, term, strict=True)]
                differ = [i for i, ratio in enumerate(ratios) if ratio is None]
                if not differ:  # the same twice: add up anywhere but where nothing changes
                    differ = [i for i, weights in enumerate(term) if weights is not None][:1]
                if len(differ) != 1:
                    continue
                (at,) = differ
                one, two = _dense(known[at], term[at]), _dense(term[at], known[at])
                if one is None or two is None:
                    continue
                factor = math.prod(r for i, r in enumerate(ratios) if r is not None and i != at)
                kept = [each for each in kept if each is not known]
                waiting.insert(0, (*known[:at], one + factor * two, *known[at + 1 :]))
                break
            else:
                kept.append(term)
        return replace(self, terms=tuple(kept)) if len(kept) <= _MOST_TERMS else None

    def joined(self, others: Sequence["Separable"], axis: int) -> "Separable | None":
        """This and others one after another along an axis of the result."""
        every = (self, *others)
        holder = self.holder(axis)
        same = all(each.axes == self.axes and each.source == self.source for each in every)
        if holder is None or not same or any(len(each.terms) != 1 for each in every):
            return None
        for at, weights in enumerate(self.terms[0]):
            if at != holder and not all(_same(weights, each.terms[0][at]) for each in others):
                return None
        size = sum(each.sizes[axis] for each in every)
        at = self.axes[holder].index(axis)
        parts = []
        for each in every:
            dense = each.with_weights(holder, lambda weights: weights)
            if dense is None:
                return None
            parts.append(dense.terms[0][holder])
        weights = np.concatenate([part for part in parts if part is not None], at)
        sizes = (*self.sizes[:axis], size, *self.sizes[axis + 1 :])
        return self.with_weights(holder, lambda _: weights, sizes)

    def summed(self, axes: Sequence[int]) -> "Separable | None":
        """Summed over axes of the result."""
        result: Separable | None = self
        factor = 1
        for axis in axes:
            holder = self.holder(axis)
            if holder is None:
                factor *= self.sizes[axis]
                continue
            if result is None or any(term[holder] is None for term in self.terms):
                return None
            at = result.axes[holder].index(axis)
            left = [each for each in result.axes[holder] if each != axis]
            result = result.with_weights(holder, lambda w: w.sum(at), axes=left)  # noqa: B023
        if result is None:
            return None
        kept = [axis for axis in range(len(self.sizes)) if axis not in axes]
        place = {old: new for new, old in enumerate(kept)}
        names = [tuple(place[axis] for axis in each) for each in result.axes]
        small = _normal(self.source, [self.sizes[axis] for axis in kept], names, result.terms)
        return small.scaled(np.broadcast_to(np.array(float(factor)), small.sizes))


def identity(sizes: Sequence[int]) -> Separable:
    """The map of a tensor to itself."""
    axes = [(axis,) for axis in range(len(sizes))]
    return _normal(tuple(sizes), sizes, axes, [(None,) * len(axes)])


def _normal(
    source: tuple[int, ...],
    sizes: Sequence[int],
    axes: Sequence[Sequence[int]],
    terms: Sequence[tuple[Weights, ...]],
) -> Separable:
    """Axes in order, and without those of size one."""
    orders = [sorted(range(len(each)), key=list(each).__getitem__) for each in axes]
    kept = [
        [i for i in order if sizes[each[i]] != 1] for order, each in zip(orders, axes, strict=True)
    ]

    def turned(weights: Weights, order: Sequence[int], few: Sequence[int]) -> Weights:
        if weights is None:
            return None
        wide = weights.transpose([*order, len(order)])
        return wide.reshape([*(weights.shape[i] for i in few), weights.shape[-1]])

    return Separable(
        source=source,
        sizes=tuple(sizes),
        axes=tuple(tuple(each[i] for i in few) for each, few in zip(axes, kept, strict=True)),
        terms=tuple(
            tuple(map(turned, term, orders, kept))  # one for each axis of the source
            for term in terms
        ),
    )


def _runs(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes that hold the same elements before and after a reshape."""
    old = [axis for axis, size in enumerate(before) if size != 1]
    new = [axis for axis, size in enumerate(after) if size != 1]
    runs = []
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        while True:
            one = math.prod(before[axis] for axis in left)
            two = math.prod(after[axis] for axis in right)
            if one == two:
                break
            (left if one < two else right).append((old if one < two else new).pop(0))
        runs.append((left, right))
    return runs


def _is_nothing(term: tuple[Weights, ...]) -> bool:
    """Whether a term gives zeros."""
    return any(weights is not None and not weights.any() for weights in term)


def _same(one: Weights, two: Weights) -> bool:
    ratio = _ratio(one, two)
    return ratio is not None and math.isclose(ratio, 1.0, rel_tol=_EQUAL)


def _dense(weights: Weights, other: Weights) -> Weights:
    """The weights written out, in the shape of others."""
    if weights is not None or other is None:
        return weights
    return np.eye(other.shape[-1]).reshape(other.shape)


def _ratio(one: Weights, two: Weights) -> float | None:
    """The number that the first times gives the second; None where there is none."""
    if one is two:
        return 1.0
    one, two = _dense(one, two), _dense(two, one)
    if one is None or two is None or one.shape != two.shape:
        return None
    at = np.unravel_index(int(np.abs(one).argmax()), one.shape)
    if one[at] == 0:
        return None if two.any() else 1.0
    ratio = float(two[at] / one[at])
    if not ratio:
        return None
    return ratio if bool((np.abs(one * ratio - two) <= _EQUAL * np.abs(two)).all()) else None


def _parts(
    factors: _Array, groups: Sequence[Sequence[int]]
) -> tuple[float, dict[int, _Array]] | None:
    """A number, and a table over each group of axes that matters, whose product the factors are."""
    few = np.asarray(factors, np.float64)
    few = few[tuple(slice(0, 1) if step == 0 else slice(None) for step in few.strides)]
    if not np.isfinite(few).all():
        return None
    for axis in range(few.ndim):
        first = few.take([0], axis)
        if few.shape[axis] > 1 and (few == first).all():
            few = first
    wide = [axis for axis, size in enumerate(few.shape) if size > 1]
    at = np.unravel_index(int(np.abs(few).argmax()), few.shape) if few.ndim else ()
    top = float(few[at])
    if not wide or top == 0:
        return top, {}
    if not set(wide) <= {axis for group in groups for axis in group}:
        return None
    tables = {}
    product = np.full_like(few, top)
    for number, group in enumerate(groups):
        if not set(group) & set(wide):
            continue
        index = tuple(
            slice(None) if i in group else slice(at[i], at[i] + 1) for i in range(few.ndim)
        )
        table = few[index] / top
        product = product * table
        tables[number] = table.transpose(
            [*group, *(i for i in range(few.ndim) if i not in group)]
        ).reshape([few.shape[axis] for axis in group])
    close = np.abs(product - few) <= _ROUNDING * np.abs(few)
    return (top, tables) if bool(close.all()) else None
