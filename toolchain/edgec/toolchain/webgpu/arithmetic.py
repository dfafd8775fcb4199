"""SPIR-V's operations on values to expressions of WGSL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgec.toolchain.webgpu.forms import form, from_words, lanes_of, signed, splat, to_words
from edgec.toolchain.webgpu.opcodes import Op
from edgec.toolchain.webgpu.spirv import Type, Unwritable

__all__ = ["NAMED_OPERANDS", "Operation", "expression", "known"]

_WORD = 32
_PARTS = "xyzw"
_NOT_THERE = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation with its operands written out.

    Attributes:
        op: which.
        type: of its result.
        types: of its operands.
        given: the operands.
        words: the numbers that follow them.
    """

    op: int
    type: Type
    types: tuple[Type, ...]
    given: tuple[str, ...]
    words: tuple[int, ...] = ()


_INFIX = {
    **{Op.F_ADD: "+", Op.F_SUB: "-", Op.F_MUL: "*", Op.F_DIV: "/", Op.F_REM: "%"},
    **{Op.VECTOR_TIMES_SCALAR: "*", Op.U_DIV: "/", Op.U_MOD: "%"},
    **{Op.SHIFT_RIGHT_LOGICAL: ">>", Op.BITWISE_OR: "|", Op.BITWISE_XOR: "^"},
    **{Op.BITWISE_AND: "&", Op.LOGICAL_EQUAL: "==", Op.LOGICAL_NOT_EQUAL: "!="},
    **{Op.LOGICAL_OR: "|", Op.LOGICAL_AND: "&", Op.I_EQUAL: "==", Op.I_NOT_EQUAL: "!="},
    **{Op.U_GREATER_THAN: ">", Op.U_GREATER_THAN_EQUAL: ">=", Op.U_LESS_THAN: "<"},
    **{Op.U_LESS_THAN_EQUAL: "<=", Op.F_ORD_EQUAL: "=="},
    **{Op.F_ORD_LESS_THAN: "<", Op.F_ORD_GREATER_THAN: ">", Op.F_ORD_LESS_THAN_EQUAL: "<="},
    **{Op.F_ORD_GREATER_THAN_EQUAL: ">="},
}
_INTEGERS = {Op.I_ADD: "+", Op.I_SUB: "-", Op.I_MUL: "*", Op.SHIFT_LEFT_LOGICAL: "<<"}
"""Operations that may leave bits above an integer of 8 or 16."""
_SIGNED = {Op.S_DIV: "/", Op.S_REM: "%"}
_SIGNED_COMPARISONS = {
    **{Op.S_GREATER_THAN: ">", Op.S_GREATER_THAN_EQUAL: ">="},
    **{Op.S_LESS_THAN: "<", Op.S_LESS_THAN_EQUAL: "<="},
}
_UNORDERED = {
    Op.F_UNORD_LESS_THAN: ">=",
    Op.F_UNORD_GREATER_THAN: "<=",
    Op.F_UNORD_LESS_THAN_EQUAL: ">",
    Op.F_UNORD_GREATER_THAN_EQUAL: "<",
}
"""What is not so where the operation is true."""

NAMED_OPERANDS = frozenset(
    (
        *(Op.COMPOSITE_INSERT, Op.COMPOSITE_EXTRACT, Op.VECTOR_SHUFFLE, Op.BITCAST, Op.S_MOD),
        *(Op.F_MOD, Op.I_ADD_CARRY, Op.I_SUB_BORROW, Op.U_MUL_EXTENDED, Op.S_MUL_EXTENDED),
        *(Op.F_UNORD_EQUAL, Op.F_ORD_NOT_EQUAL, Op.VECTOR_EXTRACT_DYNAMIC),
        *(Op.VECTOR_INSERT_DYNAMIC, Op.F_UNORD_NOT_EQUAL),
    )
)
"""Operations that say an operand more than once, or a part of it: it must have a name."""


def known(op: int) -> bool:
    """Whether `expression` has an expression for an operation."""
    tables = (_INFIX, _INTEGERS, _SIGNED, _SIGNED_COMPARISONS, _UNORDERED, _MORE)
    return any(op in table for table in tables)


def expression(it: Operation) -> str:
    """The expression of an operation; those with an infix are not in brackets.

    Raises:
        Unwritable: WGSL has nothing for it.
    """
    op, given = it.op, it.given
    if op in _INFIX:
        return f"{given[0]} {_INFIX[Op(op)]} {given[1]}"
    if op in _INTEGERS:
        return _narrow(it.type, f"{given[0]} {_INTEGERS[Op(op)]} {given[1]}")
    if op in _SIGNED:
        return _unsigned(it.type, f"{_s(it, 0)} {_SIGNED[Op(op)]} {_s(it, 1)}")
    if op in _SIGNED_COMPARISONS:
        return f"{_s(it, 0)} {_SIGNED_COMPARISONS[Op(op)]} {_s(it, 1)}"
    if op in _UNORDERED:
        return f"!({given[0]} {_UNORDERED[Op(op)]} {given[1]})"
    return _MORE[Op(op)](it)


def _s(it: Operation, index: int) -> str:
    return signed(it.types[index], it.given[index])


def _narrow(type: Type, text: str) -> str:
    """An integer without what lies above its bits."""
    bits = type.inner.bits
    if bits == _WORD:
        return text
    return f"({text}) & {splat(type, hex((1 << bits) - 1) + 'u')}"


def _unsigned(type: Type, text: str) -> str:
    """An `i32` as it is held."""
    return _narrow(type, f"{form(type)}({text})")


def _floats(type: Type, lane: str) -> str:
    return f"vec{type.count}<{lane}>" if type.kind == "vector" else lane


def _s_mod(it: Operation) -> str:
    a, b = _s(it, 0), _s(it, 1)
    return _unsigned(it.type, f"(({a} % {b}) + {b}) % {b}")


def _convert_sign(it: Operation) -> str:
    narrower = it.type.inner.bits < it.types[0].inner.bits
    if narrower:
        return _narrow(it.type, it.given[0])
    return _unsigned(it.type, _s(it, 0))


def _convert_plain(it: Operation) -> str:
    narrower = it.type.inner.bits < it.types[0].inner.bits
    return _narrow(it.type, it.given[0]) if narrower else it.given[0]


def _convert_float(it: Operation) -> str:
    if it.type.inner.bits < it.types[0].inner.bits:
        return f"quantizeToF16({it.given[0]})"
    return it.given[0]


def _bitcast(it: Operation) -> str:
    to, given = it.type, it.types[0]
    same = lanes_of(to) == lanes_of(given) and to.inner.bits == given.inner.bits
    if same and to.inner.kind == given.inner.kind:
        return it.given[0]
    if same and to.inner.bits == _WORD:
        return f"bitcast<{form(to)}>({it.given[0]})"
    return from_words(to, to_words(given, it.given[0]))


def _bits(it: Operation) -> str:
    """A float's bits without its sign."""
    kind = _floats(it.types[0], "u32")
    return f"(bitcast<{kind}>({it.given[0]}) & {_fill(it, '0x7fffffffu')})"


def _not_equal(it: Operation) -> str:
    """Not equal, or no number; `!=` of WGSL says of no number that it is equal to itself."""
    a, b = it.given
    return f"{_bits(it)} > {_fill(it, '0x7f800000u')}" if a == b else f"!({a} == {b})"


def _fill(it: Operation, number: str) -> str:
    type = it.types[0]
    return f"vec{type.count}<u32>({number})" if type.kind == "vector" else number


def _part(type: Type, text: str, index: int) -> str:
    return f"{text}.{_PARTS[index]}" if type.kind == "vector" else f"{text}[{index}]"


def _extract(it: Operation) -> str:
    text, type = it.given[0], it.types[0]
    for index in it.words:
        text = _part(type, text, index)
        type = type.members[index] if type.kind == "struct" else type.inner
    return text


def _insert(it: Operation) -> str:
    new, old = it.given
    if it.type.kind != "vector" or len(it.words) != 1:
        raise Unwritable("a kernel changes a part of a value that is no vector")
    lanes = [new if i == it.words[0] else _part(it.type, old, i) for i in range(it.type.count)]
    return f"{form(it.type)}({','.join(lanes)})"


def _shuffle(it: Operation) -> str:
    first = lanes_of(it.types[0])
    if all(word < first for word in it.words):
        return f"{it.given[0]}.{''.join(_PARTS[word] for word in it.words)}"
    lanes = []
    for word in it.words:
        if word == _NOT_THERE:
            lanes.append(f"{form(it.type.inner)}()")
        elif word < first:
            lanes.append(f"{it.given[0]}.{_PARTS[word]}")
        else:
            lanes.append(f"{it.given[1]}.{_PARTS[word - first]}")
    return f"{form(it.type)}({','.join(lanes)})"


def _put_dynamic(it: Operation) -> str:
    vector, new, index = it.given
    lanes = [f"select({vector}.{_PARTS[i]},{new},{index} == {i}u)" for i in range(it.type.count)]
    return f"{form(it.type)}({','.join(lanes)})"


def _pair(it: Operation, low: str, high: str) -> str:
    """The two halves of a wide result."""
    return f"{form(it.type)}({low},{high})"


def _add_carry(it: Operation) -> str:
    a, b = it.given
    one, none = splat(it.types[0], "1u"), splat(it.types[0], "0u")
    return _pair(it, f"{a} + {b}", f"select({none},{one},{a} + {b} < {a})")


def _borrow(it: Operation) -> str:
    a, b = it.given
    one, none = splat(it.types[0], "1u"), splat(it.types[0], "0u")
    return _pair(it, f"{a} - {b}", f"select({none},{one},{a} < {b})")


def _high(it: Operation, function: str) -> str:
    """The upper halves of products, a lane at a time."""
    a, b = it.given
    type = it.types[0]
    if type.kind != "vector":
        return f"{function}({a},{b})"
    lanes = [f"{function}({a}.{part},{b}.{part})" for part in _PARTS[: type.count]]
    return f"{form(type)}({','.join(lanes)})"


def _wide(function: str) -> Callable[[Operation], str]:
    def made(it: Operation) -> str:
        if it.types[0].inner.bits != _WORD:
            raise Unwritable("a kernel multiplies integers that are no words into wider ones")
        return _pair(it, f"{it.given[0]} * {it.given[1]}", _high(it, function))

    return made


def _call(function: str) -> Callable[[Operation], str]:
    return lambda it: f"{function}({','.join(it.given)})"


def _construct(it: Operation) -> str:
    return f"{form(it.type)}({','.join(it.given)})"


_MORE: Mapping[Op, Callable[[Operation], str]] = {
    Op.S_MOD: _s_mod,
    Op.F_MOD: lambda it: f"{it.given[0]} - {it.given[1]} * floor({it.given[0]} / {it.given[1]})",
    Op.SHIFT_RIGHT_ARITHMETIC: lambda it: _unsigned(it.type, f"{_s(it, 0)} >> {it.given[1]}"),
    Op.S_NEGATE: lambda it: _narrow(it.type, f"{splat(it.type, '0u')} - {it.given[0]}"),
    Op.F_NEGATE: lambda it: f"-({it.given[0]})",
    Op.NOT: lambda it: _narrow(it.type, f"~({it.given[0]})"),
    Op.LOGICAL_NOT: lambda it: f"!({it.given[0]})",
    Op.S_CONVERT: _convert_sign,
    Op.U_CONVERT: _convert_plain,
    Op.F_CONVERT: _convert_float,
    Op.QUANTIZE_TO_F16: _call("quantizeToF16"),
    Op.CONVERT_F_TO_U: lambda it: _narrow(it.type, f"{form(it.type)}({it.given[0]})"),
    Op.CONVERT_F_TO_S: lambda it: _unsigned(it.type, f"{_floats(it.type, 'i32')}({it.given[0]})"),
    Op.CONVERT_S_TO_F: lambda it: f"{form(it.type)}({_s(it, 0)})",
    Op.CONVERT_U_TO_F: lambda it: f"{form(it.type)}({it.given[0]})",
    Op.BITCAST: _bitcast,
    Op.DOT: _call("dot"),
    Op.ANY: _call("any"),
    Op.ALL: _call("all"),
    Op.IS_NAN: lambda it: f"{_bits(it)} > {_fill(it, '0x7f800000u')}",
    Op.IS_INF: lambda it: f"{_bits(it)} == {_fill(it, '0x7f800000u')}",
    Op.F_UNORD_NOT_EQUAL: _not_equal,
    Op.F_UNORD_EQUAL: lambda it: (
        f"!(({it.given[0]} < {it.given[1]}) | ({it.given[0]} > {it.given[1]}))"
    ),
    Op.F_ORD_NOT_EQUAL: lambda it: (
        f"({it.given[0]} < {it.given[1]}) | ({it.given[0]} > {it.given[1]})"
    ),
    Op.SELECT: lambda it: f"select({it.given[2]},{it.given[1]},{it.given[0]})",
    Op.BIT_FIELD_U_EXTRACT: _call("extractBits"),
    Op.BIT_FIELD_S_EXTRACT: lambda it: _unsigned(
        it.type, f"extractBits({_s(it, 0)},{it.given[1]},{it.given[2]})"
    ),
    Op.BIT_FIELD_INSERT: _call("insertBits"),
    Op.BIT_REVERSE: _call("reverseBits"),
    Op.BIT_COUNT: _call("countOneBits"),
    Op.I_ADD_CARRY: _add_carry,
    Op.I_SUB_BORROW: _borrow,
    Op.U_MUL_EXTENDED: _wide("high_u"),
    Op.S_MUL_EXTENDED: _wide("high_s"),
    Op.VECTOR_EXTRACT_DYNAMIC: lambda it: f"{it.given[0]}[{it.given[1]}]",
    Op.VECTOR_INSERT_DYNAMIC: _put_dynamic,
    Op.VECTOR_SHUFFLE: _shuffle,
    Op.COMPOSITE_CONSTRUCT: _construct,
    Op.COMPOSITE_EXTRACT: _extract,
    Op.COMPOSITE_INSERT: _insert,
    Op.COPY_OBJECT: lambda it: it.given[0],
}
