"""Gathers of windows that slide over memory, `unfold` and frames of sound, as slices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SlidingGathers", "slid"]

_MOST_SLICES = 64
"""Of one axis; a gather is one piece of work, and each slice is another."""


@dataclass(frozen=True, kw_only=True)
class SlidingGathers:
    """A gather of sliding windows is a slice for each element of a window, side by side.

    PyTorch's `unfold`, frames of sound and `x[:, i[:, None] + j]` arrive as gathers of single
    elements by tables of 64-bit indices as large as what they give. Where the windows begin some
    steps apart, as many elements of them are one slice: frames of 400 that begin 160 apart are
    three slices. What is only turned or padded before the gather is read as it lies, so that a
    slice is one piece of memory.

    Measured on two cores: PyTorch's `unfold` of 128 x 256 by 9, a product of it with 9 weights a
    word and head (ConvBERT) and three products by weights took 5.8 ms and take 0.43.
    """

    name = "sliding-gathers"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "SlidingGathers | None":
        """For StableHLO with gathers at -O1 and above."""
        needed = situation.is_stablehlo and "stablehlo.gather" in situation.operations
        return cls() if needed and situation.level > 0 else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were rewritten."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.fold import Constants

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            count = slid(module, Constants())
            if count:
                erase_unused(module)
            return count


def slid(module: Any, known: Any) -> int:
    """Write gathers of sliding windows as slices; how many there were.

    Args:
        module: an `ir.Module` in StableHLO; call it with its context.
        known: its constants (`edgec.toolchain.ir.fold.Constants`).
    """
    gathers = [op for op in inside(module.operation) if op.name == "stablehlo.gather"]
    return sum(_rewritten(op, known) for op in gathers)


def _rewritten(op: Any, known: Any) -> int:
    """Write a gather as slices; 1 if it was done."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.sliding import read_sliding

    operand, (result,) = op.operands[0], op.results
    if not graph.is_static(operand, result) or known.of(operand) is not None:
        return 0
    runs = read_sliding(op, known)
    if runs is None or not any(run.slides for run in runs):
        return 0
    if any(_slices(run) > _MOST_SLICES for run in runs):
        return 0
    with ir.InsertionPoint(op), op.location:
        source, order = _as_it_lies(operand)
        value = source
        # What each axis is now: one of the result's, or none of them.
        names: list[int | None] = [-1 - axis for axis in range(len(order))]
        for axis, run in zip(order, runs, strict=True):
            value, names = _along(value, names, names.index(-1 - axis), run)
        result.replace_all_uses_with(_arranged(value, names, graph.shape(result)))
    op.erase()
    return 1


def _slices(run: Any) -> int:
    """How many slices the windows along an axis become."""
    if not run.slides:
        return 1
    (_, _, apart), (_, size, step) = run.parts
    slices: int = size if apart % step else -(-size // (apart // step))
    return slices


def _as_it_lies(value: Any) -> tuple[Any, list[int]]:
    """A value before it is turned, padded where it lies; axis i was axis `order[i]` of it."""
    from edgec.toolchain.ir import write as graph

    plain = list(range(len(graph.shape(value))))
    op = getattr(value.owner, "operation", None)
    if op is None:
        return value, plain
    if op.name == "stablehlo.transpose":
        source, order = _as_it_lies(op.operands[0])
        return source, [order[axis] for axis in graph.integers(op, "permutation")]
    if op.name == "stablehlo.pad":
        source, order = _as_it_lies(op.operands[0])
        if order == plain:
            return value, plain
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        widths = [graph.integers(op, name) for name in names]
        turned = [[each[order.index(axis)] for axis in plain] for each in widths]
        return graph.pad(source, op.operands[1], *turned), order
    if op.name == "stablehlo.reshape":
        (inner,) = op.operands
        sizes = graph.shape(value)
        kept = _kept(graph.shape(inner), sizes)
        if kept is not None:
            source, order = _as_it_lies(inner)
            ones = len(plain) - len(kept)
            source = graph.reshape(source, [*graph.shape(source), *[1] * ones])
            before, new = iter(order), iter(range(len(kept), len(plain)))
            return source, [next(before if axis in kept else new) for axis in plain]
    return value, plain


def _kept(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """The axes of sizes that others had before axes of one element were put between them."""
    kept: list[int] = []
    for axis, size in enumerate(after):
        if len(kept) < len(before) and before[len(kept)] == size:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(before) else None


def _along(value: Any, names: list[int | None], at: int, run: Any) -> tuple[Any, list[int | None]]:
    """The elements of a run along an axis, and what each axis is then."""
    if not run.parts:
        return _cut(value, at, run.start, 1, 1), [*names[:at], None, *names[at + 1 :]]
    if not run.slides:
        ((axis, size, step),) = run.parts
        return _cut(value, at, run.start, size, step), [*names[:at], axis, *names[at + 1 :]]
    (place, count, apart), (inner, size, step) = run.parts
    if apart % step or apart == step:
        return _side_by_side(value, names, at, run)
    from edgec.toolchain.ir import write as graph

    each = apart // step
    parts = []
    for first in range(0, size, each):
        piece = _cut(value, at, run.start + first * step, count * each, step)
        sizes = list(graph.shape(piece))
        piece = graph.reshape(piece, [*sizes[:at], count, each, *sizes[at + 1 :]])
        parts.append(_cut(piece, at + 1, 0, min(each, size - first), 1))
    return graph.concatenate(parts, at + 1), [*names[:at], place, inner, *names[at + 1 :]]


def _side_by_side(
    value: Any, names: list[int | None], at: int, run: Any
) -> tuple[Any, list[int | None]]:
    """The first elements of all windows, then the second ones of all, and so on."""
    from edgec.toolchain.ir import write as graph

    (place, count, apart), (inner, size, step) = run.parts
    parts = []
    for number in range(size):
        piece = _cut(value, at, run.start + number * step, count, apart)
        parts.append(graph.reshape(piece, [1, *graph.shape(piece)]))
    return graph.concatenate(parts, 0), [inner, *names[:at], place, *names[at + 1 :]]


def _cut(value: Any, axis: int, start: int, count: int, step: int) -> Any:
    """Some elements along an axis; zeros where it has ended."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(value)
    end = start + (count - 1) * step + 1
    if end > sizes[axis]:
        none = [0] * len(sizes)
        high = [end - size if at == axis else 0 for at, size in enumerate(sizes)]
        value = graph.pad(value, graph.fill(0, (), graph.element(value)), none, high)
    starts = [start if at == axis else 0 for at in range(len(sizes))]
    limits = [end if at == axis else size for at, size in enumerate(sizes)]
    return graph.slice_(
        value, starts, limits, [step if at == axis else 1 for at in range(len(sizes))]
    )


def _arranged(value: Any, names: Sequence[int | None], sizes: Sequence[int]) -> Any:
    """Axes of these names brought to their places in a result of these sizes."""
    from edgec.toolchain.ir import write as graph

    kept = [
        (name, size)
        for name, size in zip(names, graph.shape(value), strict=True)
        if name is not None
    ]
    value = graph.reshape(value, [size for _, size in kept])
    places = [name for name, _ in kept]
    order = sorted(range(len(places)), key=places.__getitem__)
    value = graph.transpose(value, order)
    if any(size != 1 for axis, size in enumerate(sizes) if axis not in places):
        return graph.broadcast(value, sizes, sorted(places))
    return graph.reshape(value, sizes)
