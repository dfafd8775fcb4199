"""How a value of SPIR-V is held in WGSL, and how its bits lie in words of 32.

All integers are `u32`, those of 8 and 16 bits with zeros above; signed operations say so where they
happen. Floats of 16 bits are held as `f32` and rounded where they are stored, so that they need no
feature of the device.
"""

from collections.abc import Callable, Sequence

from edgec.toolchain.webgpu.spirv import Type, Unwritable

__all__ = ["bits_of", "form", "from_words", "lanes_of", "room_of", "signed", "splat", "to_words"]

_WORD = 32
_PARTS = "xyzw"


def form(type: Type) -> str:
    """The type in WGSL.

    Raises:
        Unwritable: WGSL has none for it.
    """
    match type.kind:
        case "bool":
            return "bool"
        case "int":
            if type.bits > _WORD:
                raise Unwritable("a kernel computes in integers of 64 bits")
            return "u32"
        case "float":
            if type.bits > _WORD:
                raise Unwritable("a kernel computes in floats of 64 bits")
            return "f32"
        case "vector":
            return f"vec{type.count}<{form(type.inner)}>"
        case "array":
            return f"array<{form(type.inner)},{type.count}>"
        case "struct" if len(set(map(form, type.members))) == 1:
            # Two halves of a wide sum or product.
            return f"array<{form(type.members[0])},{len(type.members)}>"
        case _:
            raise Unwritable(f"a kernel has a value that is a {type.kind}")


def room_of(type: Type) -> int:
    """Bytes that a value takes in workgroup memory."""
    if type.kind == "array":
        return type.count * room_of(type.inner)
    if type.kind == "vector":
        return 16 if type.count > 2 else 8
    return 4


def lanes_of(type: Type) -> int:
    """Numbers in a vector; 1 for a number."""
    return type.count if type.kind == "vector" else 1


def bits_of(type: Type) -> int:
    """Bits of a number or vector as buffers hold it."""
    return _number(type).bits * lanes_of(type)


def splat(type: Type, number: str) -> str:
    """A number, in every lane where `type` is a vector."""
    return f"{form(type)}({number})" if type.kind == "vector" else number


def signed(type: Type, text: str) -> str:
    """An integer as `i32`."""
    lanes = f"vec{type.count}<i32>" if type.kind == "vector" else "i32"
    bits = type.inner.bits
    if bits == _WORD:
        return f"{lanes}({text})"
    shift = splat(type, f"{_WORD - bits}u")
    return f"({lanes}({text} << {shift}) >> {shift})"


def to_words(type: Type, text: str) -> list[str]:
    """The words of a value in a buffer; a value of less than a word is in the lower bits of one."""
    number = _number(type)
    lanes = [text] if type.kind != "vector" else [f"{text}.{part}" for part in _lane_names(type)]
    if number.bits == _WORD:
        return [f"bitcast<u32>({lane})" if number.kind == "float" else lane for lane in lanes]
    if number.kind == "float":
        pairs = [lanes[i : i + 2] for i in range(0, len(lanes), 2)]
        if len(lanes) == 1:
            return [f"(pack2x16float(vec2<f32>({lanes[0]},0f)) & 0xffffu)"]
        return [f"pack2x16float(vec2<f32>({','.join(_padded(pair))}))" for pair in pairs]
    each = _WORD // number.bits
    words = []
    for i in range(0, len(lanes), each):
        placed = [
            lane if k == 0 else f"({lane} << {k * number.bits}u)"
            for k, lane in enumerate(lanes[i : i + each])
        ]
        words.append(" | ".join(placed) if len(placed) == 1 else f"({' | '.join(placed)})")
    return words


def from_words(type: Type, words: Sequence[str]) -> str:
    """The value whose words in a buffer these are."""
    number = _number(type)
    lane = _lane_reader(number)
    each = _WORD // number.bits
    lanes = [lane(words[i // each], i % each) for i in range(lanes_of(type))]
    return lanes[0] if type.kind != "vector" else f"{form(type)}({','.join(lanes)})"


def _number(type: Type) -> Type:
    """The type of a number, or of those in a vector."""
    number = type.inner if type.kind == "vector" else type
    if number.kind not in ("int", "float"):
        raise Unwritable(f"a kernel's buffer holds values that are a {number.kind}")
    return number


def _lane_reader(number: Type) -> Callable[[str, int], str]:
    if number.kind == "float":
        if number.bits == _WORD:
            return lambda word, place: f"bitcast<f32>({word})"
        return lambda word, place: f"unpack2x16float({word}).{_PARTS[place]}"
    if number.bits == _WORD:
        return lambda word, place: word
    bits = number.bits
    return lambda word, place: f"extractBits({word},{place * bits}u,{bits}u)"


def _lane_names(type: Type) -> str:
    return _PARTS[: type.count]


def _padded(pair: list[str]) -> list[str]:
    return pair if len(pair) == 2 else [*pair, "0f"]
