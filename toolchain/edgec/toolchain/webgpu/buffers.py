"""Values in a kernel's buffers: reads and writes by words, whatever types share a buffer."""

from collections.abc import Callable, Sequence

from edgec.toolchain.webgpu.forms import bits_of, form, from_words, lanes_of, to_words
from edgec.toolchain.webgpu.places import Binding, Room
from edgec.toolchain.webgpu.spirv import Type, Unwritable

__all__ = ["load", "store"]

_WORD = 32
_Name = Callable[[str], str]
"""Gives an expression a name, for where it is said several times."""


def load(binding: Binding, element: Type, index: str, lane: Sequence[str], name: _Name) -> str:
    """What is read at an index of a buffer that is seen as an array of `element`s.

    Args:
        binding: the buffer.
        element: the type of its elements, as the kernel sees them.
        index: which element.
        lane: which lane of it; all if there is none.
        name: see `_Name`.
    """
    room = binding.room
    buffer = f"b{binding.number}"
    if lane:
        index = name(f"{index} * {lanes_of(element)}u + {lane[0]}")
        element = element.inner
    bits = bits_of(element)
    if bits < _WORD:
        each = _WORD // bits
        at = name(index)
        word = name(_word(room, buffer, f"({at} >> {each.bit_length() - 1}u)", name))
        part = f"extractBits({word},({at} & {each - 1}u) * {bits}u,{bits}u)"
        return from_words(element, [name(part)])
    if _is_alike(room, element):
        return f"{buffer}[{index}]"
    if room.lanes == 4 and lanes_of(element) == 4 and element.inner.bits == _WORD:
        return f"bitcast<{form(element)}>({buffer}[{index}])"
    words = _indices(index, bits // _WORD, name)
    if element.inner.kind == "float" and room.kind == "f32":
        lanes = [_item(room, buffer, word, name) for word in words]
        return lanes[0] if len(lanes) == 1 else f"{form(element)}({','.join(lanes)})"
    several = lanes_of(element) > len(words)
    read = [_word(room, buffer, word, name) for word in words]
    return from_words(element, [name(word) for word in read] if several else read)


def store(
    binding: Binding, element: Type, index: str, lane: Sequence[str], text: str, name: _Name
) -> list[str]:
    """The statements that write a value at an index of a buffer; see `load`."""
    room = binding.room
    buffer = f"b{binding.number}"
    if lane:
        index = name(f"{index} * {lanes_of(element)}u + {lane[0]}")
        element = element.inner
    bits = bits_of(element)
    value = name(text)
    if bits < _WORD:
        each = _WORD // bits
        at = name(index)
        word = f"&{buffer}[{at} >> {each.bit_length() - 1}u]"
        place = name(f"({at} & {each - 1}u) * {bits}u")
        (part,) = to_words(element, value)
        return [
            f"atomicAnd({word},~({hex((1 << bits) - 1)}u << {place}));",
            f"atomicOr({word},{part} << {place});",
        ]
    if _is_alike(room, element):
        return [f"{buffer}[{index}] = {value};"]
    if room.lanes == 4:
        if lanes_of(element) != 4 or element.inner.bits != _WORD:
            raise Unwritable("a kernel writes parts of what it takes in fours")
        return [f"{buffer}[{index}] = bitcast<vec4<{room.kind}>>({value});"]
    words = to_words(element, value)
    places = _indices(index, len(words), name)
    if room.kind == "atomic":
        return [
            f"atomicStore(&{buffer}[{at}],{word});" for at, word in zip(places, words, strict=True)
        ]
    if room.kind == "f32":
        words = [value] if len(words) == 1 else [f"{value}[{i}]" for i in range(len(words))]
    return [f"{buffer}[{at}] = {word};" for at, word in zip(places, words, strict=True)]


def _is_alike(room: Room, element: Type) -> bool:
    if room.kind == "atomic" or element.inner.bits != _WORD:
        return False
    kind = "f32" if element.inner.kind == "float" else "u32"
    return room.kind == kind and room.lanes == lanes_of(element)


def _indices(index: str, count: int, name: _Name) -> list[str]:
    """The indices of an element's words."""
    if count == 1:
        return [index]
    first = name(f"{index} * {count}u")
    return [first, *(f"{first} + {i}u" for i in range(1, count))]


def _item(room: Room, buffer: str, index: str, name: _Name) -> str:
    """A word as the buffer has it."""
    if room.lanes == 1:
        return f"{buffer}[{index}]"
    at = name(index)
    return f"{buffer}[{at} >> 2u][{at} & 3u]"


def _word(room: Room, buffer: str, index: str, name: _Name) -> str:
    """A word as `u32`."""
    if room.kind == "atomic":
        return f"atomicLoad(&{buffer}[{index}])"
    item = _item(room, buffer, index, name)
    return f"bitcast<u32>({item})" if room.kind == "f32" else item
