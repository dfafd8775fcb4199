"""Instructions of GLSL.std.450 to expressions of WGSL."""

from collections.abc import Sequence

from edgec.toolchain.webgpu.forms import form, signed
from edgec.toolchain.webgpu.opcodes import Extended
from edgec.toolchain.webgpu.spirv import Type, Unwritable

__all__ = ["extended"]

_PLAIN = {
    Extended.ROUND: "round",
    Extended.ROUND_EVEN: "round",
    Extended.TRUNC: "trunc",
    Extended.F_ABS: "abs",
    Extended.F_SIGN: "sign",
    Extended.FLOOR: "floor",
    Extended.CEIL: "ceil",
    Extended.FRACT: "fract",
    Extended.SIN: "sin",
    Extended.COS: "cos",
    Extended.TAN: "tan",
    Extended.ASIN: "asin",
    Extended.ACOS: "acos",
    Extended.ATAN: "atan",
    Extended.SINH: "sinh",
    Extended.COSH: "cosh",
    Extended.ASINH: "asinh",
    Extended.ACOSH: "acosh",
    Extended.ATANH: "atanh",
    Extended.ATAN2: "atan2",
    Extended.POW: "pow",
    Extended.EXP: "exp",
    Extended.LOG: "log",
    Extended.EXP2: "exp2",
    Extended.LOG2: "log2",
    Extended.SQRT: "sqrt",
    Extended.INVERSE_SQRT: "inverseSqrt",
    Extended.F_MIN: "min",
    Extended.N_MIN: "min",
    Extended.U_MIN: "min",
    Extended.F_MAX: "max",
    Extended.N_MAX: "max",
    Extended.U_MAX: "max",
    Extended.F_CLAMP: "clamp",
    Extended.N_CLAMP: "clamp",
    Extended.U_CLAMP: "clamp",
    Extended.F_MIX: "mix",
    Extended.FMA: "fma",
    Extended.PACK_HALF_2X16: "pack2x16float",
    Extended.UNPACK_HALF_2X16: "unpack2x16float",
    Extended.FIND_I_LSB: "firstTrailingBit",
    Extended.FIND_U_MSB: "firstLeadingBit",
}
_SIGNED = {
    Extended.S_ABS: "abs",
    Extended.S_SIGN: "sign",
    Extended.S_MIN: "min",
    Extended.S_MAX: "max",
    Extended.S_CLAMP: "clamp",
    Extended.FIND_S_MSB: "firstLeadingBit",
}
_TANH_IS_ONE = 10.0
"""From here on tanh is 1 in f32; devices that make it of exponentials overflow later."""


def extended(number: int, type: Type, types: Sequence[Type], given: Sequence[str]) -> str:
    """The expression of an instruction.

    Args:
        number: which.
        type: of its result.
        types: of its operands.
        given: the operands.

    Raises:
        Unwritable: WGSL has nothing for it.
    """
    listed = ",".join(given)
    if number in _PLAIN:
        return f"{_PLAIN[Extended(number)]}({listed})"
    if number in _SIGNED:
        words = ",".join(signed(each, text) for each, text in zip(types, given, strict=True))
        return f"{form(type)}({_SIGNED[Extended(number)]}({words}))"
    if number == Extended.TANH:
        limits = [f"{form(type)}({sign}{_TANH_IS_ONE}f)" for sign in ("-", "")]
        return f"tanh(clamp({given[0]},{','.join(limits)}))"
    if number == Extended.LDEXP:
        return f"ldexp({given[0]},{signed(types[1], given[1])})"
    name = Extended(number).name if number in Extended._value2member_map_ else str(number)
    raise Unwritable(f"a kernel computes GLSL.std.450's {name.replace('_', '').capitalize()}")
