"""Integers of 64 bits as pairs of 32-bit words: what each operation is on them.

Words are tensors of signless i32; all functions write operations where the insertion point is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir import write as graph

__all__ = [
    "Pair",
    "absolute",
    "add",
    "constant",
    "count_leading_zeros",
    "count_ones",
    "divide",
    "each",
    "equal",
    "extend",
    "from_floats",
    "less",
    "multiply",
    "negate",
    "select",
    "shift",
    "shorten",
    "side_by_side",
    "sign",
    "split",
    "subtract",
    "to_floats",
    "to_places",
    "word_type",
]

_BITS = 32
_WORD = 2.0**32
_HALF = 0xFFFF
_LAST = np.iinfo(np.int32)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An array of 64-bit integers.

    Attributes:
        low, high: the words, `tensor<…xi32>` of the array's shape.
    """

    low: Any
    high: Any

    @property
    def words(self) -> tuple[Any, Any]:
        """The lower ones, then the higher ones."""
        return self.low, self.high


def word_type() -> Any:
    """The type of a word's elements."""
    return ir.IntegerType.get_signless(_BITS)


def _number(value: int, like: Any) -> Any:
    return graph.fill(value, graph.shape(like), word_type())


def _unsigned(word: Any) -> Any:
    return graph.bitcast(word, ir.IntegerType.get_unsigned(_BITS))


def _below(left: Any, right: Any) -> Any:
    """Whether a word is less than another, both without a sign."""
    return graph.compare("LT", _unsigned(left), _unsigned(right))


def split(words: Any) -> Pair:
    """Words that lie along a last axis of two."""
    *sizes, _ = graph.shape(words)
    low, high = (
        graph.reshape(graph.slice_(words, [0] * len(sizes) + [n], [*sizes, n + 1]), sizes)
        for n in (0, 1)
    )
    return Pair(low=low, high=high)


def side_by_side(pair: Pair) -> Any:
    """Words along a last axis of two."""
    sizes = graph.shape(pair.low)
    return graph.concatenate([graph.reshape(w, (*sizes, 1)) for w in pair.words], len(sizes))


def each(name: str, *pairs: Pair) -> Pair:
    """An operation that does the same to either word: `and`, `or`, `xor`, `not`."""
    low, high = (
        graph.create(f"stablehlo.{name}", words[0].type, list(words))
        for words in zip(*(pair.words for pair in pairs), strict=True)
    )
    return Pair(low=low, high=high)


def constant(values: np.ndarray) -> Pair:
    """Numbers that are known, of int64; one number all over may come as a broadcast array."""
    bits = values.astype(np.int64, copy=False).view(np.uint64)
    found = []
    for words in (bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(_BITS)):
        word = words.astype(np.uint32).view(np.int32)
        if word.size and (word == word.flat[0]).all():
            found.append(graph.fill(int(word.flat[0]), word.shape, word_type()))
        else:
            found.append(graph.constant(word, word_type()))
    return Pair(low=found[0], high=found[1])


def add(left: Pair, right: Pair) -> Pair:
    """The sum, which wraps as in 64 bits."""
    low = graph.binary("add", left.low, right.low)
    carry = graph.convert(_below(low, left.low), word_type())
    return Pair(low=low, high=_sum(left.high, right.high, carry))


def _sum(first: Any, *others: Any) -> Any:
    for other in others:
        first = graph.binary("add", first, other)
    return first


def subtract(left: Pair, right: Pair) -> Pair:
    """The difference, which wraps as in 64 bits."""
    borrow = graph.convert(_below(left.low, right.low), word_type())
    high = graph.binary("subtract", left.high, right.high)
    return Pair(
        low=graph.binary("subtract", left.low, right.low),
        high=graph.binary("subtract", high, borrow),
    )


def negate(pair: Pair) -> Pair:
    """The same distance from 0 on the other side."""
    zero = _number(0, pair.low)
    return subtract(Pair(low=zero, high=zero), pair)


def multiply(left: Pair, right: Pair) -> Pair:
    """The lower 64 bits of the product, by halves of words of the lower ones."""
    half, sixteen = _number(_HALF, left.low), _number(_BITS // 2, left.low)

    def parts(word: Any) -> tuple[Any, Any]:
        return (
            graph.binary("and", word, half),
            graph.binary("shift_right_logical", word, sixteen),
        )

    def times(one: Any, other: Any) -> Any:
        return graph.binary("multiply", one, other)

    (a0, a1), (b0, b1) = parts(left.low), parts(right.low)
    least = times(a0, b0)
    # Neither sum passes 32 bits: 65,535 x 65,535 + 2 x 65,535 is the largest number there is.
    middle = _sum(times(a1, b0), graph.binary("shift_right_logical", least, sixteen))
    other = _sum(times(a0, b1), graph.binary("and", middle, half))
    high = _sum(
        times(a1, b1),
        graph.binary("shift_right_logical", middle, sixteen),
        graph.binary("shift_right_logical", other, sixteen),
        times(left.low, right.high),
        times(left.high, right.low),
    )
    return Pair(low=times(left.low, right.low), high=high)


def shift(name: str, pair: Pair, amount: Pair) -> Pair:
    """`shift_left`, `shift_right_logical` or `shift_right_arithmetic`.

    By 64 and more, nothing is left but the sign of an arithmetic shift.
    """
    by = graph.binary("and", amount.low, _number(_BITS - 1, amount.low))
    rest = graph.binary("subtract", _number(_BITS, by), by)
    none = graph.compare("EQ", by, _number(0, by))
    far = graph.compare("NE", graph.binary("and", amount.low, _number(_BITS, by)), _number(0, by))
    zero = _number(0, by)
    over = graph.binary(
        "or",
        graph.compare("NE", amount.high, zero),
        graph.compare("GE", _unsigned(amount.low), _unsigned(_number(2 * _BITS, by))),
    )
    if name == "shift_left":
        moved = graph.binary(name, pair.low, by)
        crossing = graph.binary("shift_right_logical", pair.low, rest)
        crossing = graph.select(none, zero, crossing)
        near = graph.binary("or", graph.binary(name, pair.high, by), crossing)
        found = Pair(low=graph.select(far, zero, moved), high=graph.select(far, moved, near))
        return select(over, Pair(low=zero, high=zero), found)
    moved = graph.binary(name, pair.high, by)
    crossing = graph.select(none, zero, graph.binary("shift_left", pair.high, rest))
    near = graph.binary("or", graph.binary("shift_right_logical", pair.low, by), crossing)
    left = _signs(pair.high) if name == "shift_right_arithmetic" else zero
    found = Pair(low=graph.select(far, moved, near), high=graph.select(far, left, moved))
    return select(over, Pair(low=left, high=left), found)


def _signs(word: Any) -> Any:
    """All bits as a word's first one."""
    return graph.binary("shift_right_arithmetic", word, _number(_BITS - 1, word))


def equal(left: Pair, right: Pair) -> Any:
    """Whether both words are."""
    return graph.binary("and", *map(_equal, left.words, right.words))


def _equal(left: Any, right: Any) -> Any:
    return graph.compare("EQ", left, right)


def less(left: Pair, right: Pair, *, signed: bool) -> Any:
    """Whether the left one is."""
    first = graph.compare("LT", left.high, right.high) if signed else _below(left.high, right.high)
    second = graph.binary("and", _equal(left.high, right.high), _below(left.low, right.low))
    return graph.binary("or", first, second)


def select(test: Any, then: Pair, otherwise: Pair) -> Pair:
    """Elementwise choice."""
    low, high = (
        graph.select(test, *words) for words in zip(then.words, otherwise.words, strict=True)
    )
    return Pair(low=low, high=high)


def _is_negative(pair: Pair) -> Any:
    return graph.compare("LT", pair.high, _number(0, pair.high))


def absolute(pair: Pair) -> Pair:
    """The distance from 0; that of the least number has its bits."""
    return select(_is_negative(pair), negate(pair), pair)


def sign(pair: Pair) -> Pair:
    """-1, 0 or 1."""
    some = graph.binary("or", pair.low, pair.high)
    one = graph.convert(graph.compare("NE", some, _number(0, some)), word_type())
    signs = _signs(pair.high)
    return Pair(low=graph.binary("or", signs, one), high=signs)


def count_ones(pair: Pair) -> Pair:
    """How many bits are 1."""
    found = _sum(*(graph.unary("popcnt", word) for word in pair.words))
    return Pair(low=found, high=_number(0, found))


def count_leading_zeros(pair: Pair) -> Pair:
    """How many bits before the first 1; 64 where there is none."""
    high, low = (graph.unary("count_leading_zeros", word) for word in (pair.high, pair.low))
    behind = graph.binary("add", low, _number(_BITS, low))
    found = graph.select(_equal(pair.high, _number(0, high)), behind, high)
    return Pair(low=found, high=_number(0, found))


def divide(left: Pair, right: Pair, *, signed: bool) -> tuple[Pair, Pair]:
    """The quotient, towards 0, and the remainder, with the sign of the left one.

    By 0, all bits of the quotient are set, and the remainder is the left one, as XLA has them.
    """
    above, below = (absolute(left), absolute(right)) if signed else (left, right)
    zero, one = _number(0, left.low), _number(1, left.low)
    rest = Pair(low=zero, high=zero)
    # Bit by bit, as on paper. A carry out of the rest's 64 bits means that it is large enough.
    words = []
    for word in (above.high, above.low):
        bits = zero
        for place in reversed(range(_BITS)):
            top = graph.compare("LT", rest.high, zero)
            bit = graph.binary("shift_right_logical", word, _number(place, word))
            rest = add(rest, rest)
            low = graph.binary("or", rest.low, graph.binary("and", bit, one))
            rest = Pair(low=low, high=rest.high)
            fits = graph.unary("not", less(rest, below, signed=False))
            fits = graph.binary("or", top, fits)
            rest = select(fits, subtract(rest, below), rest)
            bits = _sum(bits, bits, graph.convert(fits, word_type()))
        words.append(bits)
    quotient = Pair(low=words[1], high=words[0])
    if not signed:
        return quotient, rest
    turned = graph.binary("xor", _is_negative(left), _is_negative(right))
    by_none = equal(right, Pair(low=zero, high=zero))
    ones = _number(-1, left.low)
    quotient = select(turned, negate(quotient), quotient)
    quotient = select(by_none, Pair(low=ones, high=ones), quotient)
    return quotient, select(_is_negative(left), negate(rest), rest)


def extend(value: Any) -> Pair:
    """Truths and integers of at most 32 bits; a type without a sign is one with it, but for i1."""
    kind = graph.element(value)
    signed = not graph.is_unsigned(kind) and kind.width > 1
    if kind.width < _BITS:
        low = graph.convert(value, word_type())
    else:
        low = graph.bitcast(value, word_type())
    return Pair(low=low, high=_signs(low) if signed else _number(0, low))


def shorten(pair: Pair, kind: Any) -> Any:
    """Integers of at most 32 bits, of which the lower bits stay; truths say what is not 0."""
    if kind.width == 1:
        some = graph.binary("or", pair.low, pair.high)
        return graph.compare("NE", some, _number(0, some))
    if kind.width == _BITS:
        return graph.bitcast(pair.low, kind)
    plain = ir.IntegerType.get_signless(kind.width)
    return graph.bitcast(graph.convert(pair.low, plain), kind)


def to_places(pair: Pair) -> Any:
    """Places in an array as i32: what does not fit is out of bounds then, too."""
    fits = _equal(pair.high, _signs(pair.low))
    ends = graph.select(
        _is_negative(pair), _number(_LAST.min, pair.low), _number(_LAST.max, pair.low)
    )
    return graph.select(fits, pair.low, ends)


def to_floats(pair: Pair, kind: Any, *, signed: bool) -> Any:
    """Floats; words are rounded by themselves, so that the last bit may be another beyond 2^32."""
    plain = ir.F32Type.get()
    size = absolute(pair) if signed else pair
    low, high = (graph.convert(_unsigned(word), plain) for word in size.words)
    scale = graph.fill(_WORD, graph.shape(low), plain)
    value = graph.binary("add", graph.binary("multiply", high, scale), low)
    if signed:
        value = graph.select(_is_negative(pair), graph.unary("negate", value), value)
    return graph.convert(value, kind)


def from_floats(value: Any, *, signed: bool) -> Pair:
    """Integers of floats of at most 32 bits, towards 0; what does not fit is the nearest that does.

    NaN is 0.
    """
    plain = ir.F32Type.get()
    value = graph.convert(value, plain)
    shape = graph.shape(value)
    zero, scale = graph.fill(0, shape, plain), graph.fill(_WORD, shape, plain)
    size = graph.unary("floor", graph.unary("abs", value))
    top = graph.unary("floor", graph.binary("divide", size, scale))
    rest = graph.binary("subtract", size, graph.binary("multiply", top, scale))
    unsigned = ir.IntegerType.get_unsigned(_BITS)
    low, high = (graph.bitcast(graph.convert(v, unsigned), word_type()) for v in (rest, top))
    found = Pair(low=low, high=high)
    ends = (2**63 - 1, -(2**63)) if signed else (2**64 - 1, 0)
    most, least = (_everywhere(number, shape) for number in ends)
    limit = graph.fill(2.0**63 if signed else 2.0**64, shape, plain)
    found = select(graph.compare("GE", size, limit), most, found)
    negative = graph.compare("LT", value, zero)
    if signed:
        other = select(graph.compare("GE", size, limit), least, negate(found))
    else:
        other = least
    found = select(negative, other, found)
    return select(graph.compare("EQ", value, value), found, _everywhere(0, shape))


def _everywhere(number: int, shape: tuple[int, ...]) -> Pair:
    bits = np.array(number % 2**64, np.uint64).view(np.int64)
    return constant(np.broadcast_to(bits, shape))
