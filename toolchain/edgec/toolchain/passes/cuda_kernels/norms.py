"""A layer norm or RMS norm along the last axis to a dispatch of the norm kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.passes.cuda_kernels.library import Library, replace
from edgec.toolchain.passes.cuda_kernels.tails import row_of, splat
from edgec.toolchain.passes.dynamic_shapes.reading import integers
from edgec.toolchain.passes.graph import shape

__all__ = ["rewrite_norm"]

_ELEMENTS = ("f16", "bf16", "f32")
_BLOCKS = (1024, 4096)


@dataclass(frozen=True, kw_only=True)
class _Centre:
    """What is normalised: `value`, less its mean if `mean`."""

    value: Any
    mean: bool


def rewrite_norm(op: Any, library: Library) -> None:
    """Replace what ends after `op`, an rsqrt, by a kernel, if it is a norm that one takes."""
    found = _variance(op.operands[0])
    if found is None:
        return
    centre, eps = found
    width = shape(centre.value)[-1]
    if width % 8 or width > _BLOCKS[-1] or not centre.value.type.has_static_shape:
        return
    ends = list(_ends(op.results[0], centre, width))
    sources: list[Any] = [v for v in (_narrow(centre.value), centre.value) if v is not None]
    found_ends = [
        (source, end)
        for source in sources
        for end in ends
        if end[0].type.element_type == source.type.element_type
        and str(source.type.element_type) in _ELEMENTS
    ]
    if not found_ends:
        return
    # The narrowest source first, the longest end last.
    source = found_ends[0][0]
    last, scale, shift = [end for value, end in found_ends if value == source][-1]
    element = source.type.element_type
    given = [v for v in (scale, shift) if v is not None]
    kinds = {str(v.type.element_type) for v in given} or {str(element)}
    if len(kinds) > 1 or not kinds <= {str(element), "f32"}:
        return
    what = (scale is not None) | (shift is not None) << 1 | (kinds == {"f32"}) << 2
    what |= (not centre.mean) << 3
    block = next(n for n in _BLOCKS if n >= width)
    bits = struct.unpack("<i", struct.pack("<f", eps))[0]
    rows = math.prod(shape(source)) // width
    with ir.InsertionPoint(last.owner.operation):
        results = library.call(
            f"norm_{block}_{element}",
            (rows, 1, 1),
            [width, bits, what],
            [source, scale or source, shift or source],
            [ir.RankedTensorType.get([rows, width], element)],
        )
        replace(last, results[0])


def _of(value: Any, name: str) -> Any | None:
    """The operation that gives a value, if it has this name."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    return op if op.name == f"stablehlo.{name}" else None


def _with_number(op: Any) -> tuple[Any, float] | None:
    """An operation's other operand and the constant that it is combined with."""
    left, right = op.operands
    for value, other in ((left, right), (right, left)):
        number = splat(other)
        if number is not None:
            return value, number
    return None


def _narrow(value: Any) -> Any | None:
    """The f16 or bf16 tensor that a value of f32 was widened from."""
    op = _of(value, "convert")
    if op is None or str(op.operands[0].type.element_type) not in _ELEMENTS[:2]:
        return None
    return op.operands[0]


def _spread(value: Any) -> Any:
    """The value behind changes of shape that repeat it along the last axis."""
    while True:
        op = _of(value, "broadcast_in_dim")
        if op is not None:
            if integers(op, "broadcast_dimensions") != list(range(op.operands[0].type.rank)):
                return value
        else:
            op = _of(value, "reshape")
            if op is None or shape(value) != (*shape(op.operands[0]), 1):
                return value
        value = op.operands[0]


def _mean_of(value: Any) -> Any | None:
    """The tensor that a value is the mean of along the last axis."""
    value = _spread(value)
    for name in ("divide", "multiply"):
        op = _of(value, name)
        if op is None or (name == "divide" and splat(op.operands[1]) is None):
            continue
        found = _with_number(op)
        if found is None:
            continue
        total, number = found
        summed = _of(_spread(total), "reduce")
        if summed is None or len(summed.operands) != 2:
            return None
        tensor, start = summed.operands
        inner = [each.operation.name for each in summed.regions[0].blocks[0].operations]
        width = shape(tensor)[-1]
        count = number if name == "divide" else 1 / number if number else 0.0
        fits = (
            inner == ["stablehlo.add", "stablehlo.return"]
            and splat(start) == 0
            and integers(summed, "dimensions") == [tensor.type.rank - 1]
            and math.isclose(count, width, rel_tol=1e-5)
        )
        return tensor if fits else None
    return None


def _centred(value: Any) -> _Centre:
    """A tensor as another less its mean, or as itself."""
    op = _of(value, "subtract")
    if op is not None and _mean_of(op.operands[1]) == op.operands[0]:
        return _Centre(value=op.operands[0], mean=True)
    return _Centre(value=value, mean=False)


def _variance(value: Any) -> tuple[_Centre, float] | None:
    """What a value is the variance of, and the constant added to it."""
    op = _of(_spread(value), "add")
    found = None if op is None else _with_number(op)
    if found is None:
        return None
    squares = _mean_of(found[0])
    if squares is not None:
        tensor = _squared(squares)
        return None if tensor is None else (_centred(tensor), found[1])
    # The mean of squares less the square of the mean, perhaps kept from below 0.
    variance = found[0]
    kept = _of(_spread(variance), "maximum")
    if kept is not None:
        inner = _with_number(kept)
        if inner is None or inner[1] != 0:
            return None
        variance = inner[0]
    difference = _of(_spread(variance), "subtract")
    if difference is None:
        return None
    squares, square = (_spread(v) for v in difference.operands)
    tensor = _squared(_mean_of(squares))
    mean = _squared(square)
    if tensor is None or mean is None or _mean_of(mean) != tensor:
        return None
    return _Centre(value=tensor, mean=True), found[1]


def _squared(value: Any) -> Any | None:
    """What a value is the square of."""
    op = None if value is None else _of(value, "multiply")
    return op.operands[0] if op is not None and op.operands[0] == op.operands[1] else None


def _ends(factor: Any, centre: _Centre, width: int) -> Iterator[tuple[Any, Any, Any]]:
    """Values that a kernel can give in place of the program, longest last: value, scale, shift."""
    scale = shift = None
    value = factor
    multiplied = False
    while True:
        users = [use.owner.operation for use in value.uses]
        if len(users) != 1:
            return
        (user,) = users
        if user.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape") and not multiplied:
            value = user.results[0]
            continue
        if user.name == "stablehlo.convert" and multiplied:
            value = user.results[0]
            yield value, scale, shift
            continue
        if user.name not in ("stablehlo.multiply", "stablehlo.add") or len(user.operands) != 2:
            return
        other = next((v for v in user.operands if v != value), None)
        if other is None:
            return
        if user.name == "stablehlo.multiply" and not multiplied and _is(other, centre):
            multiplied = True
        else:
            vector = row_of(other, width)
            if vector is None:
                return
            if user.name == "stablehlo.multiply" and scale is None and shift is None:
                scale = vector
            elif user.name == "stablehlo.add" and shift is None and multiplied:
                shift = vector
            else:
                return
        value = user.results[0]
        if multiplied:
            yield value, scale, shift


def _is(value: Any, centre: _Centre) -> bool:
    """Whether a value is what was centred."""
    return _centred(value) == centre
