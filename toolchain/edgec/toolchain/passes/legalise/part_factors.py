"""Products with a factor of more bytes than a kernel may reach into, in parts of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["PartFactors"]

_EVEN = 64
"""A part has a multiple of so many lines, where it can: kernels take those in even tiles."""


@dataclass(frozen=True, kw_only=True)
class PartFactors:
    """A product whose factor has more bytes than the device lets a kernel reach into, in parts.

    Vulkan's devices promise that a kernel may reach into 128 MiB of a buffer at once, and llvmpipe
    and phones keep to that: the first dense layer of AlexNet has 151 MB, that of VGG-19 411. Parts
    of the results' columns are put behind each other; where the factor's lines are what is summed
    and it comes from a file, whose parts can be read only line by line, sums of parts are added.

    Measured on llvmpipe: AlexNet, ZFNet and VGG-19 give onnxruntime's answers; without, each is
    refused at its first call.
    """

    name = "part-factors"
    purpose = Purpose.RIGHT
    most: int
    """Bytes of a factor."""

    @classmethod
    def plan(cls, situation: Situation) -> "PartFactors | None":
        """For programs in StableHLO, on devices that say how much that is."""
        most = situation.target.limits.binding
        if not most or "stablehlo.dot_general" not in situation.operations:
            return None
        return cls(most=most)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were parted."""
        parted = partial(_parted, most=self.most)
        return rewrite_each(module, ["stablehlo.dot_general"], parted)


def _parted(op: Any, *, most: int) -> Sequence[Any] | None:
    sizes = [_bytes(value) for value in op.operands]
    side = sizes.index(max(sizes))
    if sizes[side] <= most:
        return None
    return [_in_parts(op, side, sizes[side], most)]


def _in_parts(op: Any, side: int, size: int, most: int) -> Any:
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import numbers_of

    factor = op.operands[side]
    named = numbers_of(op.attributes["dot_dimension_numbers"])
    pairs = {  # axes of this factor: whether it is summed, and the other factor's
        named[f"{_SIDES[side]}_{what}_dimensions"][at]: (what == "contracting", other)
        for what in ("batching", "contracting")
        for at, other in enumerate(named.get(f"{_SIDES[1 - side]}_{what}_dimensions", []))
    }
    lengths = graph.shape(factor)
    axis = _axis(factor, [at for at in range(len(lengths)) if not pairs.get(at, (False,))[0]])
    is_summed, other_axis = pairs.get(axis, (False, None))
    values = []
    for start, end in _spans(lengths[axis], size, most):
        factors = list(op.operands)
        factors[side] = _slice(factor, axis, start, end)
        if other_axis is not None:
            factors[1 - side] = _slice(op.operands[1 - side], other_axis, start, end)
        values.append(_product(op, factors, named))
    if not is_summed:
        return graph.concatenate(values, _result_axis(op, side, axis, named))
    total = values[0]
    for value in values[1:]:
        total = graph.binary("add", total, value)
    return total


_SIDES = ("lhs", "rhs")


def _bytes(value: Any) -> int:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kind = graph.element(value)
    bits = kind.width if isinstance(kind, ir.IntegerType | ir.FloatType) else 64
    return math.prod(graph.shape(value)) * -(-int(bits) // 8)


def _axis(factor: Any, kept: Sequence[int]) -> int:
    """Where to cut: the longest axis of the result's, or for a file's weights their outermost."""
    from edgec.toolchain.ir import write as graph

    lengths = graph.shape(factor)
    source, order = _source(factor)
    if _is_constant(source):
        return max(kept or range(len(lengths)), key=lambda at: lengths[at])
    return next(order.index(at) for at in range(len(order)) if lengths[order.index(at)] > 1)


def _source(value: Any) -> tuple[Any, list[int]]:
    """What a value is but for the order of its axes, and where each of those lies there."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    order = list(range(len(graph.shape(value))))
    while not isinstance(value.owner, ir.Block) and value.owner.name in _THROUGH:
        if value.owner.name == "stablehlo.transpose":
            turned = graph.integers(value.owner, "permutation")
            order = [turned[at] for at in order]
        value = value.owner.operands[0]
    return value, order


_THROUGH = ("stablehlo.transpose", "stablehlo.convert")


def _is_constant(value: Any) -> bool:
    from iree.compiler import ir

    return not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.constant"


def _spans(length: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Where the parts of an axis begin and end; as few as there can be, about as long."""
    line = size // length
    at_most = max(most // line, 1)
    each = -(-length // -(-length // at_most))
    if (even := -(-each // _EVEN) * _EVEN) <= at_most:
        each = even
    for start in range(0, length, each):
        yield start, min(start + each, length)


def _slice(value: Any, axis: int, start: int, end: int) -> Any:
    """A part of a value; of a constant's elements where it is made of one."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import repeated
    from edgec.toolchain.ir.known import evaluated
    from edgec.toolchain.ir.literal import NUMPY

    sizes = list(graph.shape(value))
    if not isinstance(value.owner, ir.Block) and value.owner.name in _THROUGH:
        source = value.owner.operands[0]
        if value.owner.name == "stablehlo.convert":
            return graph.convert(_slice(source, axis, start, end), graph.element(value))
        order = graph.integers(value.owner, "permutation")
        return graph.transpose(_slice(source, order[axis], start, end), order)
    starts, ends = [0] * len(sizes), list(sizes)
    starts[axis], ends[axis] = start, end
    if _is_constant(value):
        kind = graph.element(value)
        part = graph.tensor([b - a for a, b in zip(starts, ends, strict=True)], kind)
        number = repeated(value)
        if number is not None:
            same = ir.DenseElementsAttr.get_splat(part, number)
            return graph.create("stablehlo.constant", part, attributes={"value": same})
        numbers, wanted = evaluated(value), NUMPY.get(str(kind))
        if numbers is not None and wanted is not None:
            cut = tuple(slice(a, b) for a, b in zip(starts, ends, strict=True))
            return graph.constant(numbers[cut].astype(wanted), kind)
    return graph.slice_(value, starts, ends)


def _product(op: Any, factors: Sequence[Any], named: dict[str, list[int]]) -> Any:
    from edgec.toolchain.ir import write as graph

    shapes = [graph.shape(value) for value in factors]
    sizes = [shapes[0][at] for at in named.get("lhs_batching_dimensions", [])]
    for side, shape in zip(_SIDES, shapes, strict=True):
        sizes += [shape[at] for at in _free(len(shape), side, named)]
    kind = graph.tensor(sizes, graph.element(op.results[0]))
    return graph.create(op.name, kind, factors, dict(op.attributes.items()))


def _free(rank: int, side: str, named: dict[str, list[int]]) -> list[int]:
    taken = [
        *named.get(f"{side}_batching_dimensions", []),
        *named.get(f"{side}_contracting_dimensions", []),
    ]
    return [at for at in range(rank) if at not in taken]


def _result_axis(op: Any, side: int, axis: int, named: dict[str, list[int]]) -> int:
    """Where an axis of a factor, which is not summed, lies in the result."""
    from edgec.toolchain.ir import write as graph

    batches = named.get(f"{_SIDES[side]}_batching_dimensions", [])
    if axis in batches:
        return batches.index(axis)
    ranks = [len(graph.shape(value)) for value in op.operands]
    before = len(_free(ranks[0], "lhs", named)) if side else 0
    return len(batches) + before + _free(ranks[side], _SIDES[side], named).index(axis)
