"""What a piece of a program computes, in NumPy: its meaning, free of every device and compiler.

Floats are f64 whatever their type, and conversions between them do nothing: two ways to write the
same function agree almost exactly, and what rounding does is not taken for a difference.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import COMPARISONS, ELEMENTWISE, direction, elementwise
from edgec.toolchain.ir.fold import repeated
from edgec.toolchain.ir.read import convolution_layout, integers, numbers_of, shape_of
from edgec.toolchain.ir.reductions import windows

__all__ = ["NotEvaluated", "NotNamed", "apply", "between", "dtype_of", "evaluate"]

_Array = np.ndarray[Any, np.dtype[Any]]
_WIDENED = 1 << 20
"""Bytes of a weight's columns in f64 at a time."""
_INTEGERS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class NotEvaluated(Exception):
    """A piece has something in it that this module does not compute; the text says what."""


class NotNamed(Exception):
    """A piece reads a value that is not among those it is said to read."""


def between(results: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """The operations that compute `results` from `operands` and constants, in order.

    Raises:
        NotNamed: they depend on another argument.
    """
    found: dict[Any, None] = {}
    waiting = [(value, False) for value in reversed(results)]
    while waiting:
        value, is_done = waiting.pop()
        if value in operands:
            continue
        if isinstance(value.owner, ir.Block):
            raise NotNamed("a value that it is not said to read")
        op = value.owner.operation
        if is_done:
            found.setdefault(op)
        elif op not in found:
            waiting.append((value, True))
            waiting += [(operand, False) for operand in op.operands]
    return list(found)


def evaluate(results: Sequence[Any], known: Mapping[Any, _Array]) -> list[_Array]:
    """The numbers of `results`, given those of all values that they are computed from.

    Args:
        results: `ir.Value`s of static tensor types.
        known: numbers by value, floats in f64; where the computation begins.

    Raises:
        NotEvaluated: an operation is none of those known here.
        NotNamed: they depend on an argument that is not known.
    """
    numbers = dict(known)
    with np.errstate(all="ignore"):
        for op in between(results, list(known)):
            (result,) = op.results if len(op.results) == 1 else (None,)
            if result is None:
                raise NotEvaluated(f"{op.name} has more than one result")
            got = apply(op, [numbers[value] for value in op.operands])
            numbers[result] = np.broadcast_to(got, _sizes(result)).astype(
                dtype_of(result), copy=False
            )
    return [numbers[value] for value in results]


def dtype_of(value: Any) -> Any:
    """The NumPy type that a value's elements have here.

    Raises:
        NotEvaluated: there is none.
    """
    kind = value.type.element_type
    if isinstance(kind, ir.FloatType):
        return np.float64
    if isinstance(kind, ir.IntegerType):
        width = ir.IntegerType(kind).width
        if width == 1:
            return np.bool_
        if width in _INTEGERS:
            wide = np.dtype(_INTEGERS[width])
            return np.dtype(f"u{wide.name}") if kind.is_unsigned else wide
    raise NotEvaluated(f"elements of type {kind}")


def _sizes(value: Any) -> tuple[int, ...]:
    sizes = shape_of(value)
    if None in sizes:
        raise NotEvaluated("a size that is not known")
    return tuple(size or 0 for size in sizes)


def apply(op: Any, operands: Sequence[_Array]) -> Any:
    """What one operation gives; its sizes may still have to be repeated.

    Raises:
        NotEvaluated: it is none of those known here.
    """
    name = elementwise(op)
    if name == "compare":
        return COMPARISONS[direction(op)](*operands)
    if name == "convert":
        return _converted(op, operands[0])
    if name is not None:
        return ELEMENTWISE[name](*operands)
    if op.name not in _OTHERS:
        raise NotEvaluated(f"the operation {op.name}")
    return _OTHERS[op.name](op, *operands)


def _converted(op: Any, value: _Array) -> _Array:
    wanted = np.dtype(dtype_of(op.results[0]))
    if wanted == np.bool_:
        return np.asarray(value != 0)
    whole = wanted.kind in "iu" and value.dtype.kind == "f"
    return np.asarray((np.trunc(value) if whole else value).astype(wanted))


def _bitcast(op: Any, value: _Array) -> _Array:
    """Integers of as many bits under another type; floats are f64 here and have other bits."""
    wanted = np.dtype(dtype_of(op.results[0]))
    if {wanted.kind, value.dtype.kind} - {"i", "u"} or wanted.itemsize != value.dtype.itemsize:
        raise NotEvaluated("the bits of floats, or of fewer or more elements")
    return np.asarray(value.view(wanted))


def _constant(op: Any) -> _Array:
    (result,) = op.results
    wanted = dtype_of(result)
    single = repeated(result)
    if single is not None:
        return np.full(_sizes(result), single.value, wanted)
    attribute = op.attributes["value"]
    if str(result.type.element_type) == "bf16" or not isinstance(attribute, ir.DenseElementsAttr):
        raise NotEvaluated("a constant that cannot be read")
    return np.array(attribute).astype(wanted).reshape(_sizes(result))


def _broadcast(op: Any, value: _Array) -> _Array:
    sizes = _sizes(op.results[0])
    wide = [1] * len(sizes)
    for axis, size in zip(integers(op, "broadcast_dimensions"), value.shape, strict=True):
        wide[axis] = size
    return np.broadcast_to(value.reshape(wide), sizes)


def _slice(op: Any, value: _Array) -> _Array:
    ends = zip(
        *(integers(op, name) for name in ("start_indices", "limit_indices", "strides")),
        strict=True,
    )
    return value[tuple(slice(*each) for each in ends)]


def _pad(op: Any, value: _Array, number: _Array) -> _Array:
    low, inside = (integers(op, name) for name in ("edge_padding_low", "interior_padding"))
    result = np.full(_sizes(op.results[0]), number, value.dtype)
    source, target = [], []
    for axis, size in enumerate(value.shape):
        step = inside[axis] + 1
        kept = [i for i in range(size) if 0 <= low[axis] + i * step < result.shape[axis]]
        source.append(kept)
        target.append([low[axis] + i * step for i in kept])
    result[np.ix_(*target)] = value[np.ix_(*source)]
    return result


def _iota(op: Any) -> _Array:
    sizes, axis = _sizes(op.results[0]), integers(op, "iota_dimension")[0]
    turned = [1] * len(sizes)
    turned[axis] = sizes[axis]
    return np.broadcast_to(np.arange(sizes[axis]).reshape(turned), sizes)


def _body(op: Any) -> Callable[..., Any]:
    """What a reduction does to two numbers."""
    inner = [each.operation for each in op.regions[0].blocks[0].operations]
    name = elementwise(inner[0]) if len(inner) == 2 else None
    if name not in ("add", "maximum", "minimum", "multiply", "and", "or"):
        raise NotEvaluated(f"{op.name} by more than one operation")
    function: Callable[..., Any] = ELEMENTWISE[name]
    return function


def _reduce(op: Any, value: _Array, start: _Array) -> Any:
    function = _body(op)
    whole = function.reduce(value, axis=tuple(integers(op, "dimensions")))  # type: ignore[attr-defined]
    return function(whole, start)


def _reduce_window(op: Any, value: _Array, start: _Array) -> Any:
    ones = [1] * value.ndim
    if integers(op, "base_dilations", ones) != ones:
        raise NotEvaluated("a window over spread values")
    function = _body(op)
    pads = integers(op, "padding", [0] * (2 * value.ndim))
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    wide = np.pad(value, pairs, constant_values=start.item())
    views, axes = windows(
        wide,
        integers(op, "window_dimensions"),
        integers(op, "window_strides", ones),
        integers(op, "window_dilations", ones),
    )
    return function(function.reduce(views, axis=axes), start)  # type: ignore[attr-defined]


def _dot_general(op: Any, left: _Array, right: _Array) -> _Array:
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    batch = [numbers.get(f"{side}_batching_dimensions", []) for side in ("lhs", "rhs")]
    inner = [numbers.get(f"{side}_contracting_dimensions", []) for side in ("lhs", "rhs")]
    free = [
        [axis for axis in range(value.ndim) if axis not in (*batch[i], *inner[i])]
        for i, value in enumerate((left, right))
    ]
    a = left.transpose(*batch[0], *free[0], *inner[0])
    b = right.transpose(*batch[1], *inner[1], *free[1])
    count = len(batch[0])
    lead = a.shape[:count]
    inside = math.prod(left.shape[axis] for axis in inner[0])
    product = _product(a.reshape(*lead, -1, inside), b.reshape(*lead, inside, -1))
    outer = [left.shape[axis] for axis in free[0]] + [right.shape[axis] for axis in free[1]]
    return np.asarray(product.reshape([*lead, *outer]))


def _product(left: _Array, right: _Array) -> _Array:
    """A product of matrices; weights of f32 are widened some columns at a time, as caches hold."""
    if left.ndim == right.ndim == 2 and left.dtype == np.float32 != right.dtype:
        return _product(right.T, left.T).T
    if right.ndim != 2 or right.dtype != np.float32 or left.dtype == np.float32:
        return np.asarray(np.matmul(left, right))
    result = np.empty((*left.shape[:-1], right.shape[1]), np.float64)
    count = max(_WIDENED // (8 * max(right.shape[0], 1)), 1)
    for first in range(0, right.shape[1], count):
        some = right[:, first : first + count].astype(np.float64)
        np.matmul(left, some, out=result[..., first : first + count])
    return result


def _convolution(op: Any, image: _Array, weight: _Array) -> _Array:
    one, two, three = convolution_layout(op)
    rank = len(one) - 2
    ones = [1] * rank
    spatial = [str(axis) for axis in range(rank)]
    x = image.transpose([one.index(axis) for axis in ("b", "f", *spatial)])
    w = weight.transpose([two.index(axis) for axis in ("o", "i", *spatial)])
    reverse = op.attributes.get("window_reversal", ())
    turned = [axis + 2 for axis, flag in enumerate(reverse) if bool(flag)]
    w = np.flip(w, tuple(turned))
    for axis, far in enumerate(integers(op, "lhs_dilation", ones)):
        if far > 1:
            sizes = list(x.shape)
            sizes[axis + 2] = (sizes[axis + 2] - 1) * far + 1
            spread = np.zeros(sizes, x.dtype)
            spread[(slice(None),) * (axis + 2) + (slice(None, None, far),)] = x
            x = spread
    pads = integers(op, "padding", [0] * (2 * rank))
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    x = np.pad(x, [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in pairs)])
    cut = [slice(max(-a, 0), x.shape[i + 2] - max(-b, 0)) for i, (a, b) in enumerate(pairs)]
    x = x[(slice(None), slice(None), *cut)]
    groups, batches = (integers(op, f"{n}_group_count", [1])[0] for n in ("feature", "batch"))
    if batches != 1:
        raise NotEvaluated("a convolution with groups of images")
    views, _ = windows(
        x,
        [1, 1, *w.shape[2:]],
        [1, 1, *integers(op, "window_strides", ones)],
        [1, 1, *integers(op, "rhs_dilation", ones)],
    )
    # b, c, places, 1, 1, taps: rows of places by columns of channels and taps, group by group.
    images, channels, *places = views.shape[: rank + 2]
    each, outputs = channels // groups, w.shape[0] // groups
    taps = math.prod(w.shape[2:])
    rows = views.reshape(images, groups, each, math.prod(places), taps).transpose(1, 0, 3, 2, 4)
    columns = w.reshape(groups, outputs, each * taps).transpose(0, 2, 1)
    product = np.matmul(rows.reshape(groups, -1, each * taps), columns)
    result = product.reshape(groups, images, -1, outputs).transpose(1, 0, 3, 2)
    result = result.reshape(images, groups * outputs, *places)
    return np.asarray(result.transpose([("b", "f", *spatial).index(axis) for axis in three]))


def _dynamic_slice(op: Any, value: _Array, *starts: _Array) -> _Array:
    sizes = integers(op, "slice_sizes")
    places = []
    for start, size, whole in zip(starts, sizes, value.shape, strict=True):
        first = min(max(int(start), 0), whole - size)
        places.append(slice(first, first + size))
    return value[tuple(places)]


def _concatenate(op: Any, *values: _Array) -> _Array:
    return np.concatenate(values, integers(op, "dimension")[0])


def _shift_right(value: _Array, by: _Array, *, signed: bool) -> _Array:
    """The bits moved down; what comes in at the top is the sign, or zero."""
    bits = 8 * value.dtype.itemsize
    name = f"{'' if signed else 'u'}int{bits}"
    count = by.view(f"uint{bits}")
    whole = value.view(name) >> np.minimum(count, bits - 1).astype(name)
    return np.asarray(whole if signed else np.where(count < bits, whole, 0)).view(value.dtype)


def _shift_left(_: Any, value: _Array, by: _Array) -> _Array:
    bits = 8 * value.dtype.itemsize
    count = by.view(f"uint{bits}")
    moved = value << np.minimum(count, bits - 1).astype(value.dtype)
    return np.where(count < bits, moved, 0).astype(value.dtype)


_OTHERS: Mapping[str, Callable[..., Any]] = {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.constant": _constant,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": lambda op, left, right: np.asarray(np.dot(left, right)),
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.iota": _iota,
    "stablehlo.dynamic_iota": lambda op, _: _iota(op),
    "stablehlo.optimization_barrier": lambda op, value: value,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": lambda op, value: value.reshape(_sizes(op.results[0])),
    "stablehlo.reverse": lambda op, value: np.flip(value, tuple(integers(op, "dimensions"))),
    "stablehlo.shift_left": _shift_left,
    "stablehlo.shift_right_arithmetic": lambda _, x, by: _shift_right(x, by, signed=True),
    "stablehlo.shift_right_logical": lambda _, x, by: _shift_right(x, by, signed=False),
    "stablehlo.slice": _slice,
    "stablehlo.transpose": lambda op, value: value.transpose(integers(op, "permutation")),
}
