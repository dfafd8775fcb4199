"""Reductions over many elements in two steps, for GPUs."""

import math
from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ON_CUDA", "SplitReductions"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """How much is reduced at once.

    Attributes:
        most: elements that one result may be made of in one step.
        chunk: elements a result of the first step, where the sizes do not say something better.
        largest: elements of a chunk at most.
        apart: only what is reduced along other axes than the last, or together with another value.
    """

    most: int
    chunk: int
    largest: int
    apart: bool = False


ON_SPIRV = Step(most=8192, chunk=256, largest=1024)
ON_CUDA = Step(most=1024, chunk=64, largest=128, apart=True)


@dataclass(frozen=True, kw_only=True)
class SplitReductions:
    """What is reduced from more than 8192 elements is reduced in chunks, and these once more.

    iree-compile 3.13 gives each result of a reduction to one thread for devices whose subgroups
    it does not count on, and a scalar's thread then reads a whole array alone. That is slow, and
    on Mesa's llvmpipe wrong, for that ends every loop after 65,535 rounds: the sum of 1,048,576
    ones is 65,535. StableHLO allows any order and the initial value any number of times, so
    what does not divide into chunks is filled up with it.

    On CUDA the compiler gives a row to a warp, but a column to one thread, too (the means over an
    image whose channels lie last), and a row of which it looks for the largest element's place.
    These are split where they have more than 1024 elements.

    Measured on llvmpipe, two cores: 16 sums of 60,000 numbers 0.57 ms, 3.3 without; that of
    1,048,576 ones is 65,535 without. On an H200 by CUDA a GC ViT whose
    gates take means over 112 x 112, 56 x 56 and 28 x 28 pixels 1.62 ms and 1.48 with it; the
    likeliest of 49,152 tokens takes 1.6 ms without it.

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
        is_cuda = target.backend is Backend.CUDA and situation.level > 1
        if not (target.is_spirv or is_cuda) or "stablehlo.reduce" not in situation.operations:
            return None
        return cls(step=ON_CUDA if is_cuda else ON_SPIRV)

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
    if math.prod(sizes[axis] for axis in axes) <= step.most:
        return None
    is_row = all(n == 1 for axis, n in enumerate(sizes) if axis > axes[-1])
    if step.apart and is_row and count == 1:
        return None
    behind = [axis for axis in axes if set(range(axis, axes[-1] + 1)) <= set(axes)]
    if len(behind) == len(axes):
        values, first, rest = _in_chunks(values, firsts, (axes[0], axes[-1]), step)
    else:  # the last run of neighbouring axes, and then the others
        first, rest = behind, axes[: -len(behind)]
    values = _reduced(op, values, first, step)
    # Apart from what uses it: the compiler would give a row of that to one thread, too.
    return [graph.fence(value) for value in _reduced(op, values, rest, step)]


def _in_chunks(
    values: list[Any], firsts: list[Any], axes: tuple[int, int], step: Step
) -> tuple[list[Any], list[int], list[int]]:
    """The first to the last axis as two: values, the axis within a chunk, and that of chunks."""
    from edgec.toolchain.ir import write as graph

    begin, end = axes
    sizes = graph.shape(values[0])
    before, behind = sizes[:begin], sizes[end + 1 :]
    total = math.prod(sizes[begin : end + 1])
    chunk = max(n for n in range(1, step.largest + 1) if total % n == 0)
    chunk = chunk if chunk >= step.chunk // 4 else step.chunk
    chunks = -(-total // chunk)
    low = [0] * (len(before) + 1 + len(behind))
    high = [*([0] * len(before)), chunks * chunk - total, *([0] * len(behind))]
    made = []
    for value, first in zip(values, firsts, strict=True):
        flat = graph.reshape(value, [*before, total, *behind])
        full = graph.pad(flat, first, low, high)
        made.append(graph.reshape(full, [*before, chunks, chunk, *behind]))
    return made, [begin + 1], [begin]


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
