"""The largest or smallest of many and its place: first the number, then the place."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.targets import Backend
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["TwoStepSearches"]

_FEW = 4096
"""Elements of which one loop finds both as fast."""
_EVEN = 4096
"""Elements of which a GPU's workgroups share any multiple evenly; of others each is a thread's."""
_LEAST_RUNS = 4
"""So many of these are worth a dispatch of their own."""
_FEW_ON_GPUS = 32
"""Searches of which each has a workgroup; of more, a thread's each is as fast."""
_FLOATS = (math.nan, -math.inf, -2.0, 0.0, 1.0, 2.5, math.inf)
_INTEGERS = (-128, -1, 0, 1, 2, 127)
_PLACES = (0, 1, 5, 70)


@dataclass(frozen=True, kw_only=True)
class TwoStepSearches:
    """`argmax` and `argmin` of many numbers find the number first, then its first place.

    Frameworks write them as one reduction of two arrays, the numbers and their places, whose step
    compares both. No compiler computes several such steps at once: iree-compile 3.13 takes one
    number after the other. The largest number alone is found many at a time, and so is the least
    place among those where it is. What a step does is found by trying it on numbers, so each
    framework's way to write it is taken: the least place of equals, NaN before all numbers where
    the step has it so, or where it depends on its operands' order.

    On a GPU that is so where few are looked for, as the likeliest of many tokens is: each step of
    the one reduction is a thread's alone, those of the two are shared by a workgroup, and of very
    many by several: the largest of each run is found first.

    Measured on a CPU of two cores (AVX-512): of 50,000 numbers 0.29 ms and 0.06 with it, of 21
    classes over 512 x 512 pixels 22.6 ms and 5.3, or 30.7 and 7.9 with the classes last. On an
    H200: of 128,256 numbers 13.1 us in one workgroup and 6.1 in 32.
    """

    most: int = 0
    """Numbers that are looked for at most; 0 for any."""

    name = "two-step-searches"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "TwoStepSearches | None":
        """For StableHLO with reductions, on CPUs, and few on GPUs, at -O2 and above."""
        target = situation.target
        if "stablehlo.reduce" not in situation.operations or situation.level < 2:
            return None
        if target.cpu is not None:
            return cls()
        is_gpu = target.is_spirv or target.backend in (Backend.CUDA, Backend.ROCM)
        return cls(most=_FEW_ON_GPUS) if is_gpu else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were found."""
        return rewrite_each(
            module, ["stablehlo.reduce"], lambda op: _in_two_steps(op, self.most), as_one=True
        )


def _in_two_steps(op: Any, most: int) -> list[Any] | None:
    """The number and its place, if that is what a reduction looks for, and no more than `most`."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import is_float, made_by

    if len(op.operands) != 4:
        return None
    values, places, first, origin = op.operands
    kind, index = graph.element(values), graph.element(places)
    whole = [each for each in (kind, index) if isinstance(each, ir.IntegerType)]
    if index not in whole or any(each.width == 1 for each in whole):
        return None
    if math.prod(graph.shape(values)) < _FEW:
        return None
    results = math.prod(graph.shape(op.results[0]))
    if most and (results > most or math.prod(graph.shape(values)) < _FEW * results):
        return None
    which = _searched(op.regions[0].blocks[0])
    if which is None:
        return None
    axes = graph.integers(op, "dimensions")
    narrow = ir.IntegerType.get_signless(32)
    counted = made_by(places, "iota")
    if (
        counted is not None
        and index.width > narrow.width
        and math.prod(graph.shape(places)) < 2**31
    ):
        (axis,) = graph.integers(counted, "iota_dimension")
        places = graph.iota(graph.shape(places), axis, narrow)
    if most and len(axes) == 1:
        values, places = _filled_up(which, values, places, axes[0])
    shared = bool(most)
    number = _least(which, values, axes, shared=shared)
    kept = [axis for axis in range(len(graph.shape(values))) if axis not in axes]
    everywhere = graph.broadcast(number, graph.shape(values), kept)
    hit = graph.compare("EQ", values, everywhere)
    if is_float(kind):
        hit = graph.binary("or", hit, graph.compare("NE", values, values))
    far = _end("minimum", graph.element(places))
    nowhere = graph.fill(far, graph.shape(places), graph.element(places))
    place = _least("minimum", graph.select(hit, places, nowhere), axes, shared=shared)
    sizes = graph.shape(number)
    begun = [graph.broadcast(first, sizes), graph.broadcast(origin, sizes)]
    return graph.apply(op.regions[0], [*begun, number, graph.convert(place, index)])


def _filled_up(which: str, values: Any, places: Any, axis: int) -> tuple[Any, Any]:
    """Both with as many elements as workgroups share evenly; those behind the end are never it."""
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(values)
    high = [-size % _EVEN if each == axis else 0 for each, size in enumerate(sizes)]
    if not any(high):
        return values, places

    def filled(value: Any, name: str) -> Any:
        kind = graph.element(value)
        return graph.pad(value, graph.fill(_end(name, kind), (), kind), [0] * len(sizes), high)

    return filled(values, which), filled(places, "minimum")


def _least(name: str, values: Any, axes: list[int], *, shared: bool) -> Any:
    """The least or largest number along axes; `shared` by the workgroups of a GPU.

    A compiler gives each result a workgroup, so of many numbers they first find one of each run.
    """
    from edgec.toolchain.ir import write as graph

    sizes, kind = graph.shape(values), graph.element(values)
    start = graph.fill(_end(name, kind), (), kind)

    def found(values: Any, axes: list[int]) -> Any:
        (least,) = graph.reduce([values], [start], axes, lambda both: [graph.binary(name, *both)])
        return least

    if shared and len(axes) == 1 and sizes[axes[0]] >= _LEAST_RUNS * _EVEN:
        (axis,) = axes
        runs = [*sizes[:axis], sizes[axis] // _EVEN, _EVEN, *sizes[axis + 1 :]]
        values = found(graph.reshape(values, runs), [axis + 1])
    return found(values, axes)


def _end(name: str, kind: Any) -> float | int:
    """The number that any other one takes the place of."""
    from iree.compiler import ir

    if not isinstance(kind, ir.IntegerType):
        return math.inf if name == "minimum" else -math.inf
    span: int = 1 << (kind.width if kind.is_unsigned else kind.width - 1)
    if name == "minimum":
        return span - 1
    return 0 if kind.is_unsigned else -span


def _searched(block: Any) -> str | None:
    """`maximum` or `minimum`, if a step of two numbers and two places keeps that of both."""
    from edgec.toolchain.ir.evaluate import NotEvaluated, dtype_of
    from edgec.toolchain.ir.read import is_float, is_unsigned

    known = _FLOATS if is_float(block.arguments[0].type.element_type) else _INTEGERS
    rows = np.array(list(itertools.product(known, _PLACES, known, _PLACES)))
    if is_unsigned(block.arguments[0].type.element_type):
        rows = np.abs(rows)
    try:
        columns = [
            column.astype(dtype_of(value))
            for value, column in zip(block.arguments, rows.T, strict=True)
        ]
        number, place = _stepped(block, columns)
    except (NotEvaluated, KeyError):
        return None
    left, left_place, right, right_place = columns
    least = np.minimum(left_place, right_place)
    one, other = np.isnan(left), np.isnan(right)
    for name, is_left in (("maximum", left > right), ("minimum", left < right)):
        expected = np.where(is_left, left_place, right_place)
        expected = np.where(left == right, least, expected)
        is_right = (place == expected) & (number == np.where(is_left, left, right))
        if np.all(is_right | one | other):
            passed_over = ~np.isnan(number[one ^ other])
            return None if passed_over.size and np.all(passed_over) else name
    return None


def _stepped(block: Any, columns: Any) -> list[Any]:
    """What a step gives for columns of numbers and places.

    Raises:
        NotEvaluated: an operation in it is none of those known.
        KeyError: a value comes from outside.
    """
    from edgec.toolchain.ir.evaluate import NotEvaluated, apply

    known = dict(zip(block.arguments, columns, strict=True))
    *operations, end = (each.operation for each in block.operations)
    with np.errstate(all="ignore"):
        for op in operations:
            if len(op.results) != 1 or not _compares_as_typed(op):
                raise NotEvaluated(op.name)
            known[op.results[0]] = apply(op, [known[value] for value in op.operands])
    return [known[value] for value in end.operands]


def _compares_as_typed(op: Any) -> bool:
    """Whether a comparison is that of its operands' type, not one of bits or without a sign."""
    from edgec.toolchain.ir.read import is_unsigned

    if op.name != "stablehlo.compare" or "compare_type" not in op.attributes:
        return True
    sort = str(op.attributes["compare_type"])
    signless = "UNSIGNED" in sort and not is_unsigned(op.operands[0].type.element_type)
    return "TOTALORDER" not in sort and not signless
