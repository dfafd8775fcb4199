"""Reductions over many elements in several steps."""

import math
from dataclasses import dataclass, replace
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ON_CPU", "ON_CUDA", "ON_SUBGROUPS", "SplitReductions"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """How much is reduced at once.

    Attributes:
        most: elements that one result may be made of in one step.
        chunk: elements a result of the first step, where the sizes do not say something better.
        largest: elements of a chunk at most.
        apart: only what is reduced along other axes than the last, or together with another value.
        together: as `most`, of what is reduced together with another value; 0 for as many.
        rounds: only what is rounded at each step, a sum of floats; what uses the results may be
            computed together with them.
        even: rows of more elements than this, and no multiple of 32, are filled up to the next
            multiple of it; 0 for none.
        row: elements along the last axis that one workgroup is left with, where `apart` leaves
            those out and there are too few of them to fill a GPU; 0 for any.
    """

    most: int
    chunk: int
    largest: int
    apart: bool = False
    together: int = 0
    rounds: bool = False
    even: int = 0
    row: int = 0


_FEW = 64
"""Elements of a chunk of which one thread looks for the largest and its place."""
_LANES = 32
"""What a row's size is a multiple of where subgroups of 32 share it; Adreno's have 64."""
_MOST_FILLED = 1024
"""Rows that are filled up at most: to write 65,536 of 333 anew takes 17 times their own time."""
ON_SPIRV = Step(most=8192, chunk=256, largest=1024, together=256)
ON_SUBGROUPS = replace(ON_SPIRV, even=128)
_WORKGROUPS = 32
"""Rows that fill a GPU well enough, each with a workgroup."""
_PARTS = 128
"""Of how many parts a row is at most, so that one workgroup puts them together in a moment."""
ON_CUDA = Step(most=1024, chunk=64, largest=128, apart=True, row=1 << 17)
ON_CPU = Step(most=256, chunk=64, largest=256, rounds=True)


@dataclass(frozen=True, kw_only=True)
class SplitReductions:
    """What is reduced from very many elements is reduced in chunks, and these once more.

    iree-compile 3.13 gives each result of a reduction to one thread for devices whose subgroups
    it does not count on, and a scalar's thread then reads a whole array alone. That is slow, and
    on Mesa's llvmpipe wrong, for that ends every loop after 65,535 rounds: the sum of 1,048,576
    ones is 65,535. StableHLO allows any order and the initial value any number of times, so
    what does not divide into chunks is filled up with it.

    Where subgroups are counted on (targets that name their devices), rows are theirs, but only
    those whose size is a multiple of theirs; others are a thread's each. Those are filled up from
    128 elements on, where they are not so many that a thread each is enough.

    What is reduced together with its place (the likeliest of many tokens) is one thread's on every
    GPU, so that is split from 256 elements on.

    On CUDA the compiler gives a row to a warp, but a column to one thread, too (the means over an
    image whose channels lie last), and a row of which it looks for the largest element's place.
    These are split where they have more than 1024 elements. A row of which there are few, with more
    than 131,072, becomes up to 128 rows: one workgroup reads no faster than a multiprocessor does.

    On a CPU it adds one number after the other, and each is rounded to the last place of the sum so
    far: the mean of 12,544 pixels is off by 4e-6, that of 512,000 squares by 2e-4, where PyTorch
    and XLA are right to 2e-7. A step of MobileNetV2 was refused for means that are next to zero. So
    sums of floats, which alone are rounded at each step, are split there from 256 numbers on. Few
    sums of many are then more pieces of work, too.

    Measured on llvmpipe, two cores: 16 sums of 60,000 numbers 0.57 ms, 3.3 without; that of
    1,048,576 ones is 65,535 without. On an H200 by CUDA a GC ViT whose
    gates take means over 112 x 112, 56 x 56 and 28 x 28 pixels 1.62 ms and 1.48 with it; the
    likeliest of 49,152 tokens takes 1.6 ms without it; the sum of 1,048,576 numbers takes 8 us and
    22 without it, that of 4,194,304 11 and 74. By Vulkan 128 rows of 1,002 numbers take 12 us and
    126 without it, 512 of 197 17 and 57. On a CPU, one thread, sums of 96
    channels over 4 x 56 x 56 pixels 0.22 ms and 0.47, of 96 rows of 12,544 numbers 0.33 and 0.30.

    Attributes:
        step: how much is reduced at once.
    """

    step: Step = ON_SPIRV

    name = "split-reductions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SplitReductions | None":
        """For StableHLO with a reduction that becomes SPIR-V, or PTX at -O2 and above."""
        target = situation.target
        if "stablehlo.reduce" not in situation.operations:
            return None
        if target.is_spirv:
            counts = target.gpu is not None and target.gpu.devices
            return cls(step=ON_SUBGROUPS if counts else ON_SPIRV)
        if target.backend is Backend.CUDA:
            return cls(step=ON_CUDA) if situation.level > 1 else None
        return cls(step=ON_CPU) if target.cpu is not None else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were split."""
        return rewrite_each(module, ["stablehlo.reduce"], lambda op: _split(op, self.step))


def _split(op: Any, step: Step) -> list[Any] | None:
    """The results of two steps, or more."""
    from edgec.toolchain.ir import write as graph

    count = len(op.operands) // 2
    values, firsts = list(op.operands)[:count], list(op.operands)[count:]
    axes = sorted(graph.integers(op, "dimensions"))
    sizes = graph.shape(values[0])
    if count > 1 and step.together:
        step = replace(step, most=step.together, chunk=_FEW, largest=2 * _FEW)
    if math.prod(sizes[axis] for axis in axes) <= step.most:
        if not step.even or count > 1 or axes != [len(sizes) - 1]:
            return None
        *above, last = sizes
        gains = last > step.even and last % _LANES and math.prod(above) <= _MOST_FILLED
        return _filled_up(op, step) if gains else None
    if step.rounds and not _is_sum_of_floats(op):
        return None
    is_row = all(n == 1 for axis, n in enumerate(sizes) if axis > axes[-1])
    if step.apart and is_row and count == 1:
        total = math.prod(sizes[axis] for axis in axes)
        rows = math.prod(sizes) // total
        if not step.row or total <= step.row or rows > _WORKGROUPS:
            return None
        parts = (n for n in range(_LANES, _PARTS + 1, _LANES) if total % n == 0)
        chunk = -(-total // max(parts, default=_PARTS))
        step = replace(step, chunk=chunk, largest=chunk, most=chunk, row=0)
    behind = [axis for axis in axes if set(range(axis, axes[-1] + 1)) <= set(axes)]
    if len(behind) < len(axes):  # the last run of neighbouring axes, and then the others
        values = _reduced(op, _reduced(op, values, behind, step), axes[: -len(behind)], step)
    else:
        flat = [_flat(value, axes) for value in values]
        values = _in_steps(op, flat, firsts, axes[0], step)
    # Apart from what uses it: the compiler would give a row of that to one thread, too.
    return values if step.rounds else [graph.fence(value) for value in values]


def _filled_up(op: Any, step: Step) -> list[Any]:
    """The reduction of rows that end with as many initial values as make their size even."""
    from edgec.toolchain.ir import write as graph

    value, first = op.operands
    sizes = graph.shape(value)
    high = [0] * (len(sizes) - 1) + [-sizes[-1] % step.even]
    even = graph.pad(value, first, [0] * len(sizes), high)
    return _reduced(op, [even], [len(sizes) - 1], step)


def _is_sum_of_floats(op: Any) -> bool:
    from edgec.toolchain.ir.read import adds_up, is_float

    return len(op.results) == 1 and adds_up(op) and is_float(op.results[0].type.element_type)


def _flat(value: Any, axes: list[int]) -> Any:
    """A tensor whose neighbouring axes are one, in the place of the first."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(value)
    first, end = axes[0], axes[-1] + 1
    return graph.reshape(value, [*sizes[:first], math.prod(sizes[first:end]), *sizes[end:]])


def _in_steps(op: Any, values: list[Any], firsts: list[Any], axis: int, step: Step) -> list[Any]:
    """The reduction of one axis: its chunks, and what they give."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(values[0])
    total = sizes[axis]
    chunk = max(n for n in range(1, step.largest + 1) if total % n == 0)
    chunk = chunk if chunk >= step.chunk // 4 else step.chunk
    rest = total % chunk
    if rest and step.rounds:
        (value,) = values
        ends = [(0, total - rest), (total - rest, total)]
        parts = [_reduced(op, [graph.cut(value, axis, *each)], [axis], step)[0] for each in ends]
        return [graph.binary("add", *parts)]
    chunks = -(-total // chunk)
    low = [0] * len(sizes)
    high = [chunks * chunk - total if each == axis else 0 for each in range(len(sizes))]
    full = [
        graph.reshape(
            graph.pad(value, first, low, high),
            [*sizes[:axis], chunks, chunk, *sizes[axis + 1 :]],
        )
        for value, first in zip(values, firsts, strict=True)
    ]
    return _reduced(op, _reduced(op, full, [axis + 1], step), [axis], step)


def _reduced(op: Any, values: list[Any], axes: list[int], step: Step) -> list[Any]:
    """The same reduction of other values, over some of their axes, split where it must be."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    new = op.clone()
    sizes = [n for axis, n in enumerate(graph.shape(values[0])) if axis not in axes]
    for place, value in enumerate(values):
        new.operands[place] = value
        new.results[place].set_type(graph.tensor(sizes, graph.element(value)))
    new.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(axes)
    made = _split(new, step)
    if made is None:
        return list(new.results)
    new.erase()
    return made
