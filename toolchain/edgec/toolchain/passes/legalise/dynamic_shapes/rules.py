"""How sizes pass through operations: from operands to results, and from an element to its source.

A module imported only by a pass that runs; it needs the compiler.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from iree.compiler import ir

from edgec.toolchain.ir.read import (
    call_target,
    convolution_layout,
    element_type,
    integers,
    is_dynamic,
    is_float,
    numbers_of,
    shape_of,
)
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import Size, apply, constant

__all__ = ["Knowledge", "element_source", "result_shapes"]

_LARGEST_SHAPE = 64  # elements; longer integer tensors are data, not shapes


class Knowledge(Protocol):
    """What a rule asks of the sizes that are known so far."""

    def of(self, value: Any) -> tuple[Size, ...]:
        """The size of every axis of a tensor."""

    def elements(self, value: Any) -> tuple[Size, ...]:
        """The elements of a statically shaped integer tensor."""

    def element(self, value: Any, position: int = 0) -> Size:
        """One element of it."""


def result_shapes(known: Knowledge, op: Any) -> Sequence[Sequence[Size] | None]:
    """The sizes of every result of an operation; None where they are not known."""
    target = call_target(op)
    rule = _RULES.get(op.name) if target is None else _CUSTOM.get(target)
    shapes = None if rule is None else rule(known, op)
    return [None] * len(op.results) if shapes is None else list(shapes)


def element_source(known: Knowledge, op: Any, position: int) -> Size | None:
    """An element of an operation's integer result, in terms of its operands; None if unknown."""
    follow = _FOLLOW.get(op.name)
    return None if follow is None else follow(known, op, position)


# From operands' sizes to results' sizes -----------------------------------------------------

_Shapes = Iterable[Sequence[Size] | None] | None


def _same(known: Knowledge, op: Any) -> _Shapes:
    """Every result has the shape of the operands; the best known size of each axis."""
    shapes = [known.of(v) for v in op.operands if len(shape_of(v)) == len(shape_of(op.results[0]))]
    best = [
        next((s for s in candidates if s.number is not None), candidates[0])
        for candidates in zip(*shapes, strict=True)
    ]
    return [best] * len(op.results)


def _first(known: Knowledge, op: Any) -> _Shapes:
    return [known.of(op.operands[0])]


def _from_shape_operand(index: int) -> Callable[[Knowledge, Any], _Shapes]:
    return lambda known, op: [known.elements(op.operands[index])]


def _transpose(known: Knowledge, op: Any) -> _Shapes:
    shape = known.of(op.operands[0])
    return [[shape[i] for i in integers(op, "permutation")]]


def _reduce(known: Knowledge, op: Any) -> _Shapes:
    gone = integers(op, "dimensions")
    shape = [s for i, s in enumerate(known.of(op.operands[0])) if i not in gone]
    return [shape] * len(op.results)


def _concatenate(known: Knowledge, op: Any) -> _Shapes:
    (axis,) = integers(op, "dimension")
    shape = list(known.of(op.operands[0]))
    for operand in list(op.operands)[1:]:
        shape[axis] = shape[axis] + known.of(operand)[axis]
    return [shape]


def _dot_general(known: Knowledge, op: Any) -> _Shapes:
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    left, right = (known.of(v) for v in op.operands)
    batch = numbers.get("lhs_batching_dimensions", [])
    gone_left = batch + numbers.get("lhs_contracting_dimensions", [])
    gone_right = numbers.get("rhs_batching_dimensions", []) + numbers.get(
        "rhs_contracting_dimensions", []
    )
    return [
        [left[i] for i in batch]
        + [s for i, s in enumerate(left) if i not in gone_left]
        + [s for i, s in enumerate(right) if i not in gone_right]
    ]


def _padded(size: Size, low: Size, high: Size, interior: int) -> Size:
    spread = size if not interior else size + constant(interior) * (size - constant(1))
    return spread + low + high


def _pad(known: Knowledge, op: Any) -> _Shapes:
    low, high, interior = (
        integers(op, f"{k}_padding" if k == "interior" else f"edge_padding_{k}")
        for k in ("low", "high", "interior")
    )
    return [
        [
            _padded(s, constant(a), constant(b), i)
            for s, a, b, i in zip(known.of(op.operands[0]), low, high, interior, strict=True)
        ]
    ]


def _dynamic_pad(known: Knowledge, op: Any) -> _Shapes:
    low, high, interior = (known.elements(v) for v in list(op.operands)[2:5])
    if any(i.number is None for i in interior):
        return None
    return [
        [
            _padded(s, a, b, i.number or 0)
            for s, a, b, i in zip(known.of(op.operands[0]), low, high, interior, strict=True)
        ]
    ]


def _real_dynamic_slice(known: Knowledge, op: Any) -> _Shapes:
    start, limit, stride = (known.elements(v) for v in list(op.operands)[1:4])
    one = constant(1)
    return [
        [
            apply("divide", b - a + (s - one), s)
            for a, b, s in zip(start, limit, stride, strict=True)
        ]
    ]


def _gather(known: Knowledge, op: Any) -> _Shapes:
    numbers = numbers_of(op.attributes["dimension_numbers"])
    if op.name == "stablehlo.dynamic_gather":
        slices: Sequence[Size] = known.elements(op.operands[2])
    else:
        slices = [constant(n) for n in integers(op, "slice_sizes")]
    gone = numbers.get("collapsed_slice_dims", []) + numbers.get("operand_batching_dims", [])
    offsets = [s for i, s in enumerate(slices) if i not in gone]
    (vector,) = numbers.get("index_vector_dim", [0])
    batch = [s for i, s in enumerate(known.of(op.operands[1])) if i != vector]
    at = numbers.get("offset_dims", [])
    return [
        [offsets.pop(0) if i in at else batch.pop(0) for i in range(len(shape_of(op.results[0])))]
    ]


def window_size(size: Size, low: Size, high: Size, window: Size, stride: int, spread: int) -> Size:
    """How many windows fit: `spread` is the window's own dilation."""
    one = constant(1)
    covered = (window - one) * constant(spread) + one
    return apply("divide", size + low + high - covered, constant(stride)) + one


def _dynamic_reduce_window(known: Knowledge, op: Any) -> _Shapes:
    count = len(op.results)
    window, stride, base, spread, padding = (known.elements(v) for v in op.operands[2 * count :])
    if any(s.number is None for s in (*stride, *base, *spread)):
        return None
    shape = [
        window_size(
            _padded(size, constant(0), constant(0), (base[i].number or 1) - 1),
            padding[2 * i],
            padding[2 * i + 1],
            window[i],
            stride[i].number or 1,
            spread[i].number or 1,
        )
        for i, size in enumerate(known.of(op.operands[0]))
    ]
    return [shape] * count


def _reduce_window(known: Knowledge, op: Any) -> _Shapes:
    shape = known.of(op.operands[0])
    rank = len(shape)
    window = integers(op, "window_dimensions")
    stride, base, spread = (
        integers(op, name, [1] * rank)
        for name in ("window_strides", "base_dilations", "window_dilations")
    )
    padding = integers(op, "padding", [0] * 2 * rank)
    out = [
        window_size(
            _padded(size, constant(0), constant(0), base[i] - 1),
            constant(padding[2 * i]),
            constant(padding[2 * i + 1]),
            constant(window[i]),
            stride[i],
            spread[i],
        )
        for i, size in enumerate(shape)
    ]
    return [out] * len(op.results)


def _convolution(known: Knowledge, op: Any) -> _Shapes:
    inputs, kernel, outputs = convolution_layout(op)
    data, weights = (known.of(v) for v in list(op.operands)[:2])
    count = len(inputs) - 2
    stride, base, spread = (
        integers(op, name, [1] * count)
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    if op.name == "stablehlo.dynamic_conv":
        padding: Sequence[Size] = known.elements(op.operands[2])
    else:
        padding = [constant(n) for n in integers(op, "padding", [0] * 2 * count)]
    (groups,) = integers(op, "batch_group_count", [1])
    shape = []
    for letter in outputs:
        if letter == "b":
            shape.append(apply("divide", data[inputs.index("b")], constant(groups)))
        elif letter == "f":
            shape.append(weights[kernel.index("o")])
        else:
            i = int(letter)
            shape.append(
                window_size(
                    _padded(data[inputs.index(letter)], constant(0), constant(0), base[i] - 1),
                    padding[2 * i],
                    padding[2 * i + 1],
                    weights[kernel.index(letter)],
                    stride[i],
                    spread[i],
                )
            )
    return [shape]


def _top_k(known: Knowledge, op: Any) -> _Shapes:
    return [known.of(op.operands[0])] * 2


_ELEMENTWISE = (
    "abs add and atan2 bitcast_convert cbrt ceil clamp compare complex convert cosine "
    "count_leading_zeros divide exponential exponential_minus_one floor imag is_finite log "
    "log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or popcnt "
    "power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select "
    "shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
)
_CHLO = (
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf "
    "is_neg_inf is_pos_inf lgamma next_after polygamma sinh square tan zeta"
)

_RULES: Mapping[str, Callable[[Knowledge, Any], _Shapes]] = {
    **{f"stablehlo.{name}": _same for name in _ELEMENTWISE.split()},
    **{f"chlo.{name}": _same for name in _CHLO.split()},
    "stablehlo.optimization_barrier": lambda known, op: [known.of(v) for v in op.operands],
    "stablehlo.sort": lambda known, op: [known.of(v) for v in op.operands],
    "stablehlo.reverse": _first,
    "stablehlo.scatter": lambda known, op: [known.of(v) for v in op.operands][: len(op.results)],
    "stablehlo.dynamic_update_slice": _first,
    "stablehlo.transpose": _transpose,
    "stablehlo.reduce": _reduce,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.pad": _pad,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.dynamic_broadcast_in_dim": _from_shape_operand(1),
    "stablehlo.dynamic_reshape": _from_shape_operand(1),
    "stablehlo.dynamic_iota": _from_shape_operand(0),
    "stablehlo.gather": _gather,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.reduce_window": _reduce_window,
    "chlo.top_k": _top_k,
}

_CUSTOM: Mapping[str, Callable[[Knowledge, Any], _Shapes]] = {
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window,
}


# From an element of an integer result to the operands' elements -----------------------------

_Follow = Callable[[Knowledge, Any, int], Size | None]


def _constant(known: Knowledge, op: Any, position: int) -> Size | None:
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.IntegerAttr):
        return constant(int(attribute.value))
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        return None
    if attribute.is_splat:
        return constant(int(attribute.get_splat_value().value))
    return constant(int(attribute[position])) if len(attribute) <= _LARGEST_SHAPE else None


def _dimension_size(known: Knowledge, op: Any, position: int) -> Size | None:
    return known.of(op.operands[0])[integers(op, "dimension")[0]]


def _forward(known: Knowledge, op: Any, position: int) -> Size | None:
    operand = op.operands[0]
    if is_float(element_type(operand)) or is_dynamic(operand):
        return None
    return known.element(operand, position)


def _broadcast_in_dim(known: Knowledge, op: Any, position: int) -> Size | None:
    operand, axes = op.operands[0], integers(op, "broadcast_dimensions")
    shape, result = shape_of(operand), shape_of(op.results[0])
    if None in shape or None in result:
        return None
    at = _unravel(position, result)
    return known.element(
        operand, _ravel([0 if n == 1 else at[a] for n, a in zip(shape, axes, strict=True)], shape)
    )


def _concatenated(known: Knowledge, op: Any, position: int) -> Size | None:
    (axis,) = integers(op, "dimension")
    shape = shape_of(op.results[0])
    if None in shape:
        return None
    at = list(_unravel(position, shape))
    for operand in op.operands:
        own = shape_of(operand)
        length = own[axis] or 0
        if at[axis] < length:
            return known.element(operand, _ravel(at, own))
        at[axis] -= length
    return None


def _sliced(known: Knowledge, op: Any, position: int) -> Size | None:
    operand = op.operands[0]
    if is_dynamic(operand):
        return None
    at = _unravel(position, shape_of(op.results[0]))
    starts, strides = integers(op, "start_indices"), integers(op, "strides")
    return known.element(
        operand,
        _ravel([s + i * d for s, i, d in zip(starts, at, strides, strict=True)], shape_of(operand)),
    )


def _polynomial(combine: Callable[..., Size]) -> _Follow:
    def follow(known: Knowledge, op: Any, position: int) -> Size | None:
        if any(is_dynamic(v) for v in op.operands):
            return None
        return combine(*(known.element(v, position) for v in op.operands))

    return follow


def _operation(name: str) -> _Follow:
    return _polynomial(lambda *sizes: apply(name, *sizes))


def _compared(known: Knowledge, op: Any, position: int) -> Size | None:
    if not str(element_type(op.operands[0])).startswith(("i", "ui")):
        return None
    direction = re.search(r"\b(EQ|NE|LT|LE|GT|GE)\b", str(op.attributes["comparison_direction"]))
    if direction is None:
        return None
    return _operation(direction.group(1))(known, op, position)


def _selected(known: Knowledge, op: Any, position: int) -> Size | None:
    predicate = known.element(op.operands[0], 0 if not shape_of(op.operands[0]) else position)
    return apply("select", predicate, *(known.element(v, position) for v in list(op.operands)[1:]))


def _from_elements(known: Knowledge, op: Any, position: int) -> Size | None:
    return known.element(op.operands[position])


def _extracted(known: Knowledge, op: Any, position: int) -> Size | None:
    tensor, *at = op.operands
    where = [known.element(v).number for v in at]
    shape = shape_of(tensor)
    if None in shape or None in where:
        return None
    return known.element(tensor, _ravel([w or 0 for w in where], shape))


def _dim(known: Knowledge, op: Any, position: int) -> Size | None:
    axis = known.element(op.operands[1]).number
    return None if axis is None else known.of(op.operands[0])[axis]


def _shape(known: Knowledge, op: Any, position: int) -> Size | None:
    return known.of(op.operands[0])[position]


def _unravel(position: int, shape: Sequence[int | None]) -> list[int]:
    at = []
    for size in reversed(shape):
        position, index = divmod(position, size or 1)
        at.append(index)
    return at[::-1]


def _ravel(at: Sequence[int], shape: Sequence[int | None]) -> int:
    position = 0
    for index, size in zip(at, shape, strict=True):
        position = position * (size or 1) + index
    return position


_FOLLOW: Mapping[str, _Follow] = {
    "stablehlo.constant": _constant,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.convert": _forward,
    "stablehlo.reshape": _forward,
    "stablehlo.dynamic_reshape": _forward,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenated,
    "stablehlo.slice": _sliced,
    "stablehlo.add": _polynomial(lambda a, b: a + b),
    "stablehlo.subtract": _polynomial(lambda a, b: a - b),
    "stablehlo.multiply": _polynomial(lambda a, b: a * b),
    "stablehlo.negate": _polynomial(lambda a: -a),
    **{
        f"stablehlo.{name}": _operation(name)
        for name in ("divide", "remainder", "maximum", "minimum", "sign", "abs", "and", "or")
    },
    "stablehlo.compare": _compared,
    "stablehlo.select": _selected,
    "arith.constant": _constant,
    "arith.index_cast": _forward,
    "arith.addi": _polynomial(lambda a, b: a + b),
    "arith.subi": _polynomial(lambda a, b: a - b),
    "arith.muli": _polynomial(lambda a, b: a * b),
    "arith.divsi": _operation("divide"),
    "arith.remsi": _operation("remainder"),
    "arith.maxsi": _operation("maximum"),
    "arith.minsi": _operation("minimum"),
    "tensor.from_elements": _from_elements,
    "tensor.extract": _extracted,
    "tensor.dim": _dim,
    "shape.shape_of": _shape,
}
