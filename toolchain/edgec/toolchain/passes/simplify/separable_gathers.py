"""Gathers by known tables, resized images above all, as moves and weights along single axes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.functions import blocks_inside, inside
from edgec.toolchain.match.separable import Separable
from edgec.toolchain.match.taps import Pieces, Repeat, Scale, Taps, read_taps
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparableGathers", "straightened"]

_HALVES = ("f16", "bf16")


@dataclass(frozen=True, kw_only=True)
class SeparableGathers:
    """Gathers whose tables follow from the sizes alone become slices, repeats or weighted sums.

    PyTorch's `interpolate` and adaptive pooling arrive as gathers of single elements, with tables
    of 64-bit indices as large as the image, and sums of them: four for bilinear, sixteen for
    bicubic, one for each pixel of a window. The tables are worked out, and what is done with the
    gathered elements is followed as far as it is linear and acts on each axis by itself. What is
    left is one matrix an axis: a cut, repeats and pieces become slices, broadcasts and
    concatenations; the rest becomes a resampling along one axis, for `resample-sums`. A gather of
    all elements in order, as PyTorch writes a view of memory, is a reshape.

    Measured on one core with AVX-512: 256 channels of 16 x 16 pixels to 128 x 128, bilinear, took
    750 ms as gathers and take 2.3; SegFormer-B0 on an image of 256 x 256 took 450 ms and takes 26.
    """

    name = "separable-gathers"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "SeparableGathers | None":
        """For StableHLO with gathers at -O1 and above."""
        needed = situation.is_stablehlo and "stablehlo.gather" in situation.operations
        return cls() if needed and situation.level > 0 else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.fold import Constants
        from edgec.toolchain.match.resample import find_resamples

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            known = Constants()
            count = straightened(module, known)
            for block in reversed(blocks_inside(module.operation)):
                for resample in find_resamples(block, known):
                    count += _rewrite(resample)
            if count:
                erase_unused(module)
            return count


def straightened(module: Any, known: Any) -> int:
    """Write gathers of neighbouring elements as slices in another shape; how many there were.

    Args:
        module: an `ir.Module` in StableHLO; call it with its context.
        known: its constants (`edgec.toolchain.ir.fold.Constants`).
    """
    return sum(_straightened(op, known) for op in list(inside(module.operation)))


def _straightened(op: Any, known: Any) -> int:
    """Write a gather of neighbouring elements as a slice in another shape; 1 if it was one."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.resample import in_order

    found = in_order(op, known)
    if found is None:
        return 0
    operand, start = found
    (result,) = op.results
    count = math.prod(graph.shape(result))
    with ir.InsertionPoint(op), op.location:
        flat = graph.reshape(operand, [math.prod(graph.shape(operand))])
        taken = graph.slice_(flat, [start], [start + count])
        result.replace_all_uses_with(graph.reshape(taken, graph.shape(result)))
    return 1


def _rewrite(resample: Any) -> int:
    """Write a map as operations along single axes; 1 if it was done."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.description import validate

    value, source, map_ = resample.value, resample.source, resample.map
    steps = _steps(map_)
    kind = value.type.element_type
    weighted = any(
        isinstance(step, Scale) or (isinstance(step, Taps) and not step.moves_only)
        for _, step in steps
    )
    if weighted and str(kind) not in (*_HALVES, "f32"):
        return 0
    if not weighted and all(isinstance(step, Taps) for _, step in steps) and len(steps) == 1:
        return 0  # a gather of whole rows already
    validate(resample, "a resampling")
    op = value.owner.operation
    with ir.InsertionPoint(op), op.location:
        result = graph.convert(source, ir.F32Type.get()) if weighted else source
        for axis, step in steps:
            result = result if isinstance(step, Repeat) else _written(result, axis, step)
        result = _repeated(result, {a: step for a, step in steps if isinstance(step, Repeat)})
        result = _arranged(graph.convert(result, kind), map_)
    value.replace_all_uses_with(result)
    return 1


def _steps(map_: Separable) -> list[tuple[int, Repeat | Pieces | Scale | Taps]]:
    """What is done along each axis of the source, first where it becomes smaller."""
    (term,) = map_.terms
    found = []
    for axis, weights in enumerate(term):
        if weights is not None:
            matrix = weights.reshape(-1, weights.shape[-1])
            found.append((len(matrix) / matrix.shape[1], axis, read_taps(matrix)))
    return [(axis, step) for _, axis, step in sorted(found, key=lambda each: each[:2])]


def _cut(value: Any, axis: int, start: int, count: int, step: int) -> Any:
    """Some elements along an axis."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(value)
    starts = [start if i == axis else 0 for i in range(len(sizes))]
    end = start + (count - 1) * step + 1
    limits = [end if i == axis else size for i, size in enumerate(sizes)]
    steps = [step if i == axis else 1 for i in range(len(sizes))]
    return graph.slice_(value, starts, limits, steps)


def _written(value: Any, axis: int, step: Pieces | Scale | Taps) -> Any:
    """One step as operations."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.resample import resample

    if isinstance(step, Taps):
        return resample(value, axis, step)
    if isinstance(step, Scale):
        numbers = graph.constant(step.weights.astype(np.float32), graph.element(value))
        return graph.binary("multiply", value, graph.broadcast(numbers, graph.shape(value), [axis]))
    return graph.concatenate([_cut(value, axis, *each) for each in step.cuts], axis)


def _repeated(value: Any, steps: Mapping[int, Repeat]) -> Any:
    """Elements repeated along some axes, all in one broadcast."""
    from edgec.toolchain.ir import write as graph

    if not steps:
        return value
    thin, wide, done = [], [], []
    for axis, step in steps.items():
        value = _cut(value, axis, step.start, step.count, 1)
    for axis, size in enumerate(graph.shape(value)):
        times = steps[axis].times if axis in steps else 1
        thin += [size, 1] if axis in steps else [size]
        wide += [size, times] if axis in steps else [size]
        done.append(size * times)
    value = graph.broadcast(graph.reshape(value, thin), wide, range(len(wide)))
    return graph.reshape(value, done)


def _arranged(value: Any, map_: Separable) -> Any:
    """The axes of the source brought to their places in the result."""
    from edgec.toolchain.ir import write as graph

    names = [axis for each in map_.axes for axis in each]
    missing = [a for a, size in enumerate(map_.sizes) if size != 1 and a not in names]
    if names == sorted(names) and not missing:
        return graph.reshape(value, map_.sizes)
    value = graph.reshape(value, [map_.sizes[axis] for axis in names])
    value = graph.transpose(value, sorted(range(len(names)), key=names.__getitem__))
    if missing:
        return graph.broadcast(value, map_.sizes, sorted(names))
    return graph.reshape(value, map_.sizes)
