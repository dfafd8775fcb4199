"""Operations of StableHLO on 64-bit integers, as `ir.pairs` computes them on pairs of words.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.pairs import (
    Pair,
    absolute,
    add,
    constant,
    count_leading_zeros,
    count_ones,
    divide,
    each,
    equal,
    extend,
    from_floats,
    less,
    multiply,
    negate,
    select,
    shift,
    shorten,
    side_by_side,
    sign,
    split,
    subtract,
    to_floats,
    word_type,
)

__all__ = ["COMPUTED", "is_wide"]


def is_wide(value: Any) -> bool:
    """Whether a value holds integers of 64 bits."""
    kind = value.type
    if isinstance(kind, ir.RankedTensorType):
        kind = kind.element_type
    return isinstance(kind, ir.IntegerType) and kind.width == 64


def _is_signed(value: Any) -> bool:
    return not graph.is_unsigned(graph.element(value))


def _constant(op: Any, _: Sequence[Any]) -> Any:
    return constant(np.asarray(literal(op)))


def _iota(op: Any, _: Sequence[Any]) -> Any:
    axis = int(ir.IntegerAttr(op.attributes["iota_dimension"]).value)
    sizes = graph.shape(op.results[0])
    return Pair(low=graph.iota(sizes, axis, word_type()), high=graph.fill(0, sizes, word_type()))


def _convert(op: Any, operands: Sequence[Any]) -> Any:
    (value,), result = operands, op.results[0]
    kind = graph.element(result)
    if not isinstance(value, Pair):
        if isinstance(graph.element(value), ir.IntegerType):
            return extend(value)
        return from_floats(value, signed=_is_signed(result))
    if is_wide(result):
        return value
    if isinstance(kind, ir.IntegerType):
        return shorten(value, kind)
    return to_floats(value, kind, signed=_is_signed(op.operands[0]))


def _bitcast(op: Any, operands: Sequence[Any]) -> Any:
    """Between 64-bit types nothing changes; others are as they lie in memory."""
    (value,), result = operands, op.results[0]
    if not isinstance(value, Pair):
        two = (*graph.shape(result), 2)
        if graph.shape(value) != two:
            value = graph.create(op.name, graph.tensor(two, word_type()), [value])
        return split(graph.bitcast(value, word_type()))
    if is_wide(result):
        return value
    words = side_by_side(value)
    if graph.shape(result) == graph.shape(words):
        return graph.bitcast(words, graph.element(result))
    return graph.create(op.name, result.type, [words])


def _compare(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    direction = str(op.attributes["comparison_direction"]).rpartition(" ")[2].strip(">")
    signed = "UNSIGNED" not in str(op.attributes.get("compare_type", "")) and _is_signed(
        op.operands[0]
    )
    if direction in ("EQ", "NE"):
        found = equal(left, right)
    elif direction in ("LT", "GE"):
        found = less(left, right, signed=signed)
    else:
        found = less(right, left, signed=signed)
    return graph.unary("not", found) if direction in ("NE", "GE", "LE") else found


def _select(op: Any, operands: Sequence[Any]) -> Any:
    test, then, otherwise = operands
    return select(_as_large(test, then), then, otherwise)


def _as_large(test: Any, like: Any) -> Any:
    """A test for all elements, where one may do for all."""
    sizes = graph.shape(like.low)
    return test if graph.shape(test) == sizes else graph.broadcast(test, sizes)


def _largest(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    return _larger(left, right, signed=_is_signed(op.operands[0]))


def _least(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    return _smaller(left, right, signed=_is_signed(op.operands[0]))


def _larger(left: Any, right: Any, *, signed: bool) -> Any:
    return select(less(left, right, signed=signed), right, left)


def _smaller(left: Any, right: Any, *, signed: bool) -> Any:
    return select(less(right, left, signed=signed), right, left)


def _clamp(op: Any, operands: Sequence[Any]) -> Any:
    low, value, high = operands
    sizes = graph.shape(value.low)

    def large(bound: Any) -> Any:
        words = [w if graph.shape(w) == sizes else graph.broadcast(w, sizes) for w in bound.words]
        return Pair(low=words[0], high=words[1])

    signed = _is_signed(op.operands[1])
    return _smaller(_larger(value, large(low), signed=signed), large(high), signed=signed)


def _quotient(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    return divide(left, right, signed=_is_signed(op.operands[0]))[0]


def _remainder(op: Any, operands: Sequence[Any]) -> Any:
    left, right = operands
    return divide(left, right, signed=_is_signed(op.operands[0]))[1]


def _of_operands(function: Callable[..., Any]) -> Callable[[Any, Sequence[Any]], Any]:
    """An operation that its operands alone decide."""
    return lambda _, operands: function(*operands)


def _named(function: Callable[..., Any], name: str) -> Callable[[Any, Sequence[Any]], Any]:
    """One of several that a function of `ir.pairs` does."""
    return _of_operands(partial(function, name))


COMPUTED: dict[str, Callable[[Any, Sequence[Any]], Any]] = {
    "constant": _constant,
    "iota": _iota,
    "convert": _convert,
    "bitcast_convert": _bitcast,
    "compare": _compare,
    "select": _select,
    "maximum": _largest,
    "minimum": _least,
    "clamp": _clamp,
    "divide": _quotient,
    "remainder": _remainder,
    "add": _of_operands(add),
    "subtract": _of_operands(subtract),
    "multiply": _of_operands(multiply),
    "negate": _of_operands(negate),
    "abs": _of_operands(absolute),
    "sign": _of_operands(sign),
    "popcnt": _of_operands(count_ones),
    "count_leading_zeros": _of_operands(count_leading_zeros),
    **{name: _named(each, name) for name in ("and", "or", "xor", "not")},
    **{
        name: _named(shift, name)
        for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")
    },
}
"""From an operation and its operands, pairs where they are of 64 bits, to its result."""
