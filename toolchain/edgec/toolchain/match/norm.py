"""Layer, RMS, group and instance norms, over any axes, however a framework wrote them.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import elementwise
from edgec.toolchain.ir.evaluate import between
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.views import Digit, dense
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description
from edgec.toolchain.match.moments import CLOSE, Moments, Polynomial, Spread, Term, term, unmoved

__all__ = ["ROOTS", "Column", "Norm", "NotANorm", "find_norms", "longest"]

ROOTS = ("stablehlo.rsqrt", "stablehlo.sqrt", "stablehlo.power")
_MOVES = ("reshape", "broadcast_in_dim", "convert", "transpose")
_MOST_STEPS = 64


@dataclass(frozen=True, kw_only=True)
class Column:
    """Numbers that a norm is multiplied with or shifted by.

    Attributes:
        value: the numbers, dense.
        axes: those of the norm's axes that they run along, in order; repeated along the others.
    """

    value: Any
    axes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Norm(Description):
    """A tensor normalised over some axes.

    Its memory is seen by axes of its own (`sizes`), which are as few as can be: a group norm has
    images, groups, channels of a group and pixels, whatever shape the program gives the tensor.

    Attributes:
        op: the root of the variance, from which it was read.
        source: what is normalised.
        sizes: its elements in order, by axes.
        summed: the axes that mean and variance are over.
        mean: whether the mean is taken from it first.
        epsilon: what is added to the variance.
        scale, shift: what the result is multiplied with, and what is then added; or None.
        value: the result, with its elements in the same order.
    """

    op: Any
    source: Any
    sizes: tuple[int, ...]
    summed: tuple[int, ...]
    mean: bool
    epsilon: float
    scale: Column | None
    shift: Column | None
    value: Any

    @property
    def operands(self) -> tuple[Any, ...]:
        """The tensor, and what else is read."""
        columns = (c.value for c in (self.scale, self.shift) if c is not None)
        return tuple(dict.fromkeys((self.source, *columns)))

    @property
    def results(self) -> tuple[Any, ...]:
        """What a kernel stores."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """(x - mean) / sqrt(variance + epsilon) * scale + shift."""
        known = dict(zip(self.operands, inputs, strict=True))
        x = known[self.source].reshape(self.sizes)
        if self.mean:
            x = x - x.mean(self.summed, keepdims=True)
        x = x / np.sqrt((x * x).mean(self.summed, keepdims=True) + self.epsilon)
        for column, step in ((self.scale, np.multiply), (self.shift, np.add)):
            if column is not None:
                wide = [n if i in column.axes else 1 for i, n in enumerate(self.sizes)]
                x = step(x, known[column.value].reshape(wide))
        return (np.asarray(x).reshape(shape(self.value)),)

    @property
    def operations(self) -> list[Any]:
        """What computes it in the program."""
        return between(self.results, self.operands)

    @property
    def work(self) -> Work:
        """Both sums and the result, each a few operations an element."""
        count = math.prod(self.sizes)
        width = int(self.source.type.element_type.width) // 8
        return Work(flops=(7 if self.mean else 4) * count, bytes=2 * count * width)

    def split(self, sizes: Sequence[int]) -> "Norm | None":
        """The same norm by more axes, some of which make up these; None where that is uneven."""
        ends = {1}
        for of in (self.sizes, sizes):
            ends |= {math.prod(of[axis:]) for axis in range(len(of))}
        cuts = sorted(ends)
        if any(high % low for low, high in pairwise(cuts)):
            return None
        fine = [high // low for low, high in pairwise(cuts)][::-1]
        places = [math.prod(fine[:axis]) for axis in range(len(fine))]
        starts = [math.prod(self.sizes[:axis]) for axis in range(len(self.sizes))]
        of_axis = [max(i for i, start in enumerate(starts) if start <= place) for place in places]

        def axes(old: Sequence[int]) -> tuple[int, ...]:
            return tuple(axis for axis, of in enumerate(of_axis) if of in old)

        return replace(
            self,
            sizes=tuple(fine),
            summed=axes(self.summed),
            scale=self.scale and replace(self.scale, axes=axes(self.scale.axes)),
            shift=self.shift and replace(self.shift, axes=axes(self.shift.axes)),
        )

    @property
    def rows(self) -> tuple[int, int] | None:
        """How many rows of how many elements are normalised, where each lies in one piece."""
        first = min(self.summed)
        if self.summed != tuple(range(first, len(self.sizes))):
            return None
        return math.prod(self.sizes[:first]), math.prod(self.sizes[first:])

    def __str__(self) -> str:
        """`norm: 32 x 320 over axes 1 of 2, f32`."""
        sizes = "x".join(map(str, self.sizes))
        over = " and ".join(str(axis) for axis in self.summed)
        kind = "norm" if self.mean else "norm without mean"
        return f"{kind}: {sizes} over axis {over}, {self.source.type.element_type}"


@dataclass(frozen=True, kw_only=True)
class NotANorm:
    """A root of something summed (`sums`, operations) that is no norm, and why."""

    op: Any
    sums: tuple[Any, ...]
    reason: str


def find_norms(op: Any) -> list[Norm] | NotANorm | None:
    """The norms that end in values after a root, the shortest first.

    Args:
        op: a root of a variance (`rsqrt`, `sqrt`, `power`).

    Returns:
        Why it is none, where something is summed before the root; None where nothing is.
    """
    if not _is_root(op):
        return None
    sums = list(_sums(op.operands[0]))
    if not sums:
        return None
    best: list[Norm] = []
    reason = "what is summed before a root is not normalised by it"
    for source in _sources(sums):
        if not source.type.has_static_shape:
            return NotANorm(
                op=op, sums=tuple(sums), reason="sizes that are known only when it runs"
            )
        moments = Moments(source)
        norms = list(_ends(op, moments))
        reason = moments.reason or reason
        if norms and (not best or norms[0].mean):
            best = norms
        if best and best[0].mean:
            break
    return best or NotANorm(op=op, sums=tuple(sums), reason=reason)


def _is_root(op: Any) -> bool:
    power = op.name == "stablehlo.power" and splat(op.operands[1])
    return op.name in ("stablehlo.rsqrt", "stablehlo.sqrt") or power in (0.5, -0.5)


def longest(norms: Sequence[Norm]) -> Norm:
    """The last norm before which nothing else uses what is done on the way.

    What is added to a norm may itself be made of it, as in a transformer that norms what goes into
    a layer and what that is added to: the norm is then used by others, too.
    """
    (first, *more) = norms
    for norm in reversed(more):
        inside = _between(first.value, norm.value)
        if inside <= set(norm.operations) and all(
            use.owner.operation in inside for v in _inner(inside, norm) for use in v.uses
        ):
            return norm
    return first


def _inner(inside: set[Any], norm: Norm) -> Iterator[Any]:
    """What the operations on the way give, but for the end."""
    for op in inside:
        yield from (value for value in op.results if value != norm.value)


def _between(first: Any, last: Any) -> set[Any]:
    """The operations that compute `last` and follow from `first`, with that of `first`."""
    start = first.owner.operation
    block = start.block
    known = {start: True}

    def follows(value: Any) -> bool:
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if op not in known:
            near = op.block == block and not op.is_before_in_block(start) and not op.regions
            known[op] = near and any([follows(operand) for operand in op.operands])  # noqa: C419
        return known[op]

    follows(last)
    return {op for op, on_the_way in known.items() if on_the_way}


def _sums(value: Any) -> Iterator[Any]:
    """The sums that a value is computed from, without any other sum between."""
    waiting: list[Any] = [value]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_STEPS:
        each = waiting.pop()
        if each in seen or isinstance(each.owner, ir.Block):
            continue
        seen.add(each)
        op = each.owner.operation
        if op.name == "stablehlo.reduce":
            yield op
        elif elementwise(op) is not None or op.name.partition(".")[2] in _MOVES:
            waiting += op.operands


def _sources(sums: Sequence[Any]) -> list[Any]:
    """What may be normalised, that from which a mean is taken first."""
    centred, plain = [], []
    for op in sums:
        value = _base(op.operands[0])
        plain.append(value)
        if not isinstance(value.owner, ir.Block):
            before = value.owner.operation
            if before.name == "stablehlo.subtract":
                centred.append(before.operands[0])
    return list(dict.fromkeys(map(unmoved, [*centred, *plain])))


def _base(value: Any) -> Any:
    """What a value is the square of; itself if it is none."""
    if isinstance(value.owner, ir.Block):
        return value
    op = value.owner.operation
    squared = op.name == "stablehlo.multiply" and op.operands[0] == op.operands[1]
    power = op.name == "stablehlo.power" and splat(op.operands[1]) == 2
    return op.operands[0] if squared or power else value


def _ends(op: Any, moments: Moments) -> Iterator[Norm]:
    """Every value after a root that is a norm of a tensor, in the program's order."""
    for value in _following(op, moments):
        polynomial, variance = moments.read(value), moments.variance
        if variance is None or moments.repeated is None:
            continue
        form = _form(polynomial, mean=variance.mean)
        if form is None:
            continue
        spreads = [each for each in form if each is not None]
        axes = _axes([moments.repeated, *(each.digits for each in spreads)], moments.size)
        if axes is None:
            continue
        sizes, (means, *steps) = axes
        if 0 not in means:
            continue  # Each element is a row of its own.
        columns = [_column(each, of, sizes) for each, of in zip(spreads, steps, strict=True)]
        if None in columns:
            continue
        left = iter(columns)
        scale, shift = (None if each is None else next(left) for each in form)
        yield Norm(
            op=op,
            source=moments.source,
            sizes=sizes,
            summed=tuple(axis for axis, step in enumerate(means) if step == 0),
            mean=variance.mean,
            epsilon=variance.epsilon,
            scale=scale,
            shift=shift,
            value=value,
        )


def _following(op: Any, moments: Moments) -> Iterator[Any]:
    """Values of the tensor's size that are computed from a root, in the program's order."""
    waiting, seen = [op], {op}
    while waiting and len(seen) < _MOST_STEPS:
        first = waiting[0]
        for each in waiting:
            if each.is_before_in_block(first):
                first = each
        waiting.remove(first)
        (value,) = first.results
        known = elementwise(first) is not None or first.name.partition(".")[2] in _MOVES
        if not known or not value.type.has_static_shape:
            continue
        if math.prod(shape(value)) == moments.size:
            if not moments.follows(value):
                continue
            yield value
        for use in value.uses:
            user = use.owner.operation
            if user not in seen and user.block == op.block and len(user.results) == 1:
                seen.add(user)
                waiting.append(user)


def _form(value: Polynomial, *, mean: bool) -> tuple[Spread | None, Spread | None] | None:
    """The scale and the shift of a polynomial that is a norm; None if it is none."""
    wanted = {term(x=1, factor=1): 1.0}
    if mean:
        wanted[term(mean=1, factor=1)] = -1.0
    scales: set[frozenset[Spread]] = set()
    shifts: list[Spread] = []
    found: dict[Term, float] = {}
    for each, number in value.items():
        moments = frozenset((atom, n) for atom, n in each if isinstance(atom, str))
        spreads = frozenset(atom for atom, _ in each if isinstance(atom, Spread))
        if len(spreads) > 1 or any(n != 1 for atom, n in each if isinstance(atom, Spread)):
            return None
        if moments:
            scales.add(spreads)
            found[moments] = number
        elif not spreads or shifts or not math.isclose(number, 1.0, rel_tol=CLOSE):
            return None
        else:
            shifts += spreads
    if len(scales) != 1 or set(found) != set(wanted) or len(value) != len(found) + len(shifts):
        return None
    if not all(math.isclose(found[each], n, rel_tol=CLOSE) for each, n in wanted.items()):
        return None
    return next(iter(*scales), None), next(iter(shifts), None)


def _axes(
    runs: Sequence[tuple[Digit, ...]], size: int
) -> tuple[tuple[int, ...], list[tuple[int, ...]]] | None:
    """As few axes of so many elements as all the runs are even along, and the step of each run."""
    cuts = {1, size}
    for digits in runs:
        packed = 1
        for digit in reversed(digits):
            packed *= digit.size
            cuts.add(packed)
        if packed != size:
            return None
    ends = sorted(cuts)
    if any(high % low for low, high in pairwise(ends)):
        return None
    sizes = [high // low for low, high in pairwise(ends)][::-1]
    return tuple(sizes), [_steps(digits, sizes) for digits in runs]


def _steps(digits: Sequence[Digit], sizes: Sequence[int]) -> tuple[int, ...]:
    """How far it is from one index of each axis to the next."""
    steps: list[int] = []
    left = list(digits)
    room, step = 1, 0
    for size in reversed(sizes):
        if room == 1:
            digit = left.pop()
            room, step = digit.size, digit.step
        steps.append(step)
        room //= size
        step *= size
    return tuple(reversed(steps))


def _column(spread: Spread, steps: Sequence[int], sizes: Sequence[int]) -> Column | None:
    """A spread value by axes; None where its numbers are not all read, in their order."""
    axes = tuple(axis for axis, step in enumerate(steps) if step)
    inner = [sizes[axis] for axis in axes]
    whole = math.prod(inner) == math.prod(shape(spread.value))
    if not whole or [steps[axis] for axis in axes] != dense(inner):
        return None
    return Column(value=spread.value, axes=axes)
