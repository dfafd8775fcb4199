"""Reductions over many elements in two steps, for GPUs."""

import math
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitReductions"]

_MOST = 8192
"""Elements that one result may be made of in one step."""
_CHUNK = 256
"""Elements a result of the first step, where the sizes do not say something better."""
_LARGEST_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class SplitReductions:
    """What is reduced from more than 8192 elements is reduced in chunks, and these once more.

    iree-compile 3.13 gives each result of a reduction to one thread for devices whose subgroups
    it does not count on, and a scalar's thread then reads a whole array alone. That is slow, and
    on Mesa's llvmpipe wrong, for that ends every loop after 65,535 rounds: the sum of 1,048,576
    ones is 65,535. StableHLO allows any order and the initial value any number of times, so
    what does not divide into chunks is filled up with it.

    Measured on llvmpipe, two cores: 16 sums of 60,000 numbers 0.57 ms, 3.3 without; that of
    1,048,576 ones is 65,535 without.
    """

    name = "split-reductions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SplitReductions | None":
        """For programs in StableHLO with a reduction that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.reduce" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were split."""
        return rewrite_each(module, ["stablehlo.reduce"], _split)


def _split(op: Any) -> list[Any] | None:
    """The results of two steps, or more."""
    from edgec.toolchain.ir import write as graph

    count = len(op.operands) // 2
    values, firsts = list(op.operands)[:count], list(op.operands)[count:]
    axes = sorted(graph.integers(op, "dimensions"))
    sizes = graph.shape(values[0])
    if math.prod(sizes[axis] for axis in axes) <= _MOST:
        return None
    behind = [axis for axis in axes if set(range(axis, axes[-1] + 1)) <= set(axes)]
    if len(behind) == len(axes):
        values, step, rest = _in_chunks(values, firsts, axes[0], axes[-1])
    else:  # the last run of neighbouring axes, and then the others
        step, rest = behind, axes[: -len(behind)]
    values = _reduced(op, values, step)
    # Apart from what uses it: the compiler would give a row of that to one thread, too.
    return [graph.fence(value) for value in _reduced(op, values, rest)]


def _in_chunks(
    values: list[Any], firsts: list[Any], begin: int, end: int
) -> tuple[list[Any], list[int], list[int]]:
    """Axes `begin` to `end` as two: values, the axis within a chunk, and the axis of chunks."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(values[0])
    before, behind = sizes[:begin], sizes[end + 1 :]
    total = math.prod(sizes[begin : end + 1])
    chunk = max(n for n in range(1, _LARGEST_CHUNK + 1) if total % n == 0)
    chunk = chunk if chunk >= _CHUNK // 4 else _CHUNK
    chunks = -(-total // chunk)
    low = [0] * (len(before) + 1 + len(behind))
    high = [*([0] * len(before)), chunks * chunk - total, *([0] * len(behind))]
    made = []
    for value, first in zip(values, firsts, strict=True):
        flat = graph.reshape(value, [*before, total, *behind])
        full = graph.pad(flat, first, low, high)
        made.append(graph.reshape(full, [*before, chunks, chunk, *behind]))
    return made, [begin + 1], [begin]


def _reduced(op: Any, values: list[Any], axes: list[int]) -> list[Any]:
    """The same reduction of other values, over some of their axes, split where it must be."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    new = op.clone()
    sizes = [n for axis, n in enumerate(graph.shape(values[0])) if axis not in axes]
    for place, value in enumerate(values):
        new.operands[place] = value
        new.results[place].set_type(graph.tensor(sizes, graph.element(value)))
    new.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(axes)
    made = _split(new)
    if made is None:
        return list(new.results)
    new.erase()
    return made
