"""ONNX values of 8-bit floats, and of 4 and 2 bits, as bytes: what a module computes with.

A small float is its bits in u8, a small whole number itself in i8 or u8. What moves values about
moves bytes; what converts them (casts, quantisation) is written with tables of their values.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.narrow_codes import bits, codes_of, values_of
from edgec.exporters.from_onnx.rewriting import Rewriting

__all__ = ["carried", "restored", "widened"]


def carried(array: np.ndarray) -> np.ndarray:
    """An array as a module takes it: one of narrow values as bytes."""
    if not _is_narrow(array.dtype):
        return array
    if _is_float(array.dtype):
        return np.ascontiguousarray(array).view(np.uint8)
    return array.astype(_carrier(array.dtype))


def restored(array: np.ndarray, elem_type: int) -> np.ndarray:
    """What `carried` made of an array, back in ONNX' own type of that number."""
    dtype = _dtype(elem_type)
    if dtype is None or not _is_narrow(dtype):
        return array
    return array.view(dtype) if _is_float(dtype) else array.astype(dtype)


def widened(model: Any) -> Any:
    """The model without narrow types: itself where it has none, or where a rule is missing.

    Args:
        model: an `onnx.ModelProto`; it is not changed.
    """
    from onnx import shape_inference

    try:
        typed = shape_inference.infer_shapes(model, data_prop=True)
    except shape_inference.InferenceError:
        return model
    types = {t.name: t.data_type for t in typed.graph.initializer}
    for value in (*typed.graph.value_info, *typed.graph.input, *typed.graph.output):
        types[value.name] = value.type.tensor_type.elem_type
    kinds = {name: _dtype(number) for name, number in types.items()}
    narrow = {name: dtype for name, dtype in kinds.items() if dtype is not None}
    narrow = {name: dtype for name, dtype in narrow.items() if _is_narrow(dtype)}
    if not narrow:
        return model
    work = Rewriting(typed)
    for node in typed.graph.node:
        touched = [name for name in (*node.input, *node.output) if name in narrow]
        rule = _RULES.get(node.op_type)
        if not touched or node.op_type in _MOVING:
            work.nodes.append(node)
        elif rule is None or not rule(work, node, narrow, kinds):
            return model
    del typed.graph.node[:]
    typed.graph.node.extend(work.nodes)
    _carry_values(typed.graph, narrow)
    return typed


_MOVING = {
    "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operations that any bytes go through."""


def _carry_values(graph: Any, narrow: Mapping[str, np.dtype]) -> None:
    from onnx import helper, numpy_helper

    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        if value.name in narrow:
            carrier = helper.np_dtype_to_tensor_dtype(_carrier(narrow[value.name]))
            value.type.tensor_type.elem_type = carrier
    for tensor in [t for t in graph.initializer if t.name in narrow]:
        array = carried(np.asarray(numpy_helper.to_array(tensor)))
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(array, tensor.name))


Kinds = Mapping[str, np.dtype | None]
Narrow = Mapping[str, np.dtype]


def _cast(work: Rewriting, node: Any, narrow: Narrow, kinds: Kinds) -> bool:
    """A cast from, to, or between narrow types; also to the type of another value."""
    value, result = node.input[0], node.output[0]
    wanted = narrow.get(result)
    attributes = work.attributes(node)
    source = _decoded(work, value, narrow)
    if wanted is None:
        kind = _number(kinds.get(result))
        if kind is None:
            return False
        work.node("Cast", source, output=result, to=kind)
        return True
    return _encode(
        work,
        source,
        wanted,
        result,
        saturate=bool(attributes.get("saturate", 1)),
        rounding=attributes.get("round_mode", "up"),
    )


def _quantize(work: Rewriting, node: Any, narrow: Narrow, kinds: Kinds) -> bool:
    value, scale, result = node.input[0], node.input[1], node.output[0]
    attributes = work.attributes(node)
    spread = _spread(work, scale, value, attributes)
    wanted = narrow.get(result)
    if spread is None or wanted is None or attributes.get("block_size", 0):
        return False
    scaled = work.node("Div", _float(work, value), _float(work, spread))
    if _is_float(wanted):
        saturate, told = bool(attributes.get("saturate", 1)), True
        if len(node.input) > 2 and node.input[2] and bits(wanted) < 8:  # of 8 ONNX adds none
            number = _decoded(work, node.input[2], narrow)
            shift = _spread(work, node.input[2], value, attributes, of=number)
            if shift is None:
                return False
            scaled = work.node("Add", scaled, _float(work, shift))
            known = work.known(node, 2)
            told = known is None or bool(np.signbit(known.astype(np.float32)).any())
        return _encode(work, scaled, wanted, result, saturate=saturate, negative_zero=told)
    rounded = work.node("Round", scaled)
    if len(node.input) > 2 and node.input[2]:
        zero = _spread(work, node.input[2], value, attributes)
        if zero is None:
            return False
        rounded = work.node("Add", rounded, _float(work, zero))
    low, high = _range(wanted)
    held = work.node("Clip", rounded, work.number(low), work.number(high))
    work.node("Cast", held, output=result, to=_number(_carrier(wanted)))
    return True


def _dequantize(work: Rewriting, node: Any, narrow: Narrow, kinds: Kinds) -> bool:
    value, scale, result = node.input[0], node.input[1], node.output[0]
    attributes = work.attributes(node)
    spread = _spread(work, scale, value, attributes)
    kind = _number(kinds.get(result))
    if spread is None or kind is None or attributes.get("block_size", 0):
        return False
    number = _float(work, _decoded(work, value, narrow))
    if len(node.input) > 2 and node.input[2]:
        zero = _decoded(work, node.input[2], narrow)
        zero = _spread(work, node.input[2], value, attributes, of=zero) or ""
        number = work.node("Sub", number, _float(work, zero))
    work.node("Cast", work.node("Mul", number, _float(work, spread)), output=result, to=kind)
    return True


_RULES: Mapping[str, Callable[[Rewriting, Any, Narrow, Kinds], bool]] = {
    "Cast": _cast,
    "CastLike": _cast,
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}


def _spread(
    work: Rewriting, name: str, value: str, attributes: Mapping[str, Any], *, of: str | None = None
) -> str | None:
    """Scales or zero points in the shape that goes with the value's; None where it is not known."""
    shape, whole = work.shapes.get(name), work.shapes.get(value)
    of = of or name
    if shape is None or whole is None:
        return None
    if not shape or shape == (1,):
        return work.reshape(of, [])
    axis = attributes.get("axis", 1) % len(whole)
    if len(shape) > 1:
        return None
    return work.reshape(of, [-1, *[1] * (len(whole) - axis - 1)])


def _float(work: Rewriting, name: str) -> str:
    return work.node("Cast", name, to=_number(np.dtype(np.float32)))


def _decoded(work: Rewriting, name: str, narrow: Narrow) -> str:
    """The numbers that bytes stand for: small floats as f32, whole numbers as they are."""
    dtype = narrow.get(name)
    if dtype is None or not _is_float(dtype):
        return name
    place = work.node("Cast", name, to=_number(np.dtype(np.int64)))
    return work.node("Gather", work.constant(values_of(dtype)), place, axis=0)


def _encode(
    work: Rewriting,
    value: str,
    dtype: np.dtype,
    result: str,
    *,
    saturate: bool,
    rounding: str = "nearest",
    negative_zero: bool = True,
) -> bool:
    """The bytes for numbers, rounded to the nearest that the type has.

    Where there is no negative zero, one counts as positive: optimisers add no constant zero to it.
    """
    if not _is_float(dtype):
        low, high = _range(dtype)
        count = work.constant(np.array(high - low + 1, np.int32))
        first = work.constant(np.array(low, np.int32))
        whole = work.node("Cast", value, to=_number(np.dtype(np.int32)))
        wrapped = work.node("Mod", work.node("Sub", whole, first), count)
        held = work.node("Add", wrapped, first)
        work.node("Cast", held, output=result, to=_number(_carrier(dtype)))
        return True
    codes = codes_of(dtype, saturate=saturate, rounding=rounding)
    if codes is None:
        return False
    number = _float(work, value)
    size = work.node("Abs", number)
    apart = work.node("Unsqueeze", size, work.numbers(-1))
    place = ""
    for test, found in (("Greater", codes.above), ("GreaterOrEqual", codes.from_there)):
        if found.size:
            above = work.node(test, apart, work.constant(found.astype(np.float32)))
            ones = work.node("Cast", above, to=_number(np.dtype(np.int64)))
            count = work.node("ReduceSum", ones, work.numbers(-1), keepdims=0)
            place = work.node("Add", place, count) if place else count
    either = [
        work.node("Gather", work.constant(table.astype(np.int32)), place, axis=0)
        for table in (codes.negative, codes.positive)
    ]
    below = work.node("Less", number, work.number(0))
    if negative_zero:
        turned = work.node("Reciprocal", number)  # tells the zeros apart
        below = work.node("Or", below, work.node("Less", turned, work.number(0)))
    code = work.node("Where", below, *either)
    no_number = work.node("IsNaN", number)
    code = work.node("Where", no_number, work.constant(np.array(codes.none, np.int32)), code)
    work.node("Cast", code, output=result, to=_number(np.dtype(np.uint8)))
    return True


def _dtype(elem_type: int) -> np.dtype | None:
    from onnx import helper

    try:
        found: np.dtype = np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    except (KeyError, TypeError):
        return None
    return found


def _number(dtype: np.dtype | None) -> Any:
    from onnx import helper

    return None if dtype is None else helper.np_dtype_to_tensor_dtype(dtype)


def _is_narrow(dtype: np.dtype) -> bool:
    """Whether it is a type of a byte or less that NumPy itself has not."""
    return dtype.itemsize == 1 and dtype.type.__module__ != "numpy"


def _is_float(dtype: np.dtype) -> bool:
    return "float" in dtype.name


def _range(dtype: np.dtype) -> tuple[int, int]:
    import ml_dtypes

    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def _carrier(dtype: np.dtype) -> np.dtype:
    signed = not _is_float(dtype) and _range(dtype)[0] < 0
    return np.dtype(np.int8 if signed else np.uint8)
