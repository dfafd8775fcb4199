"""SPIR-V to words that compress to two thirds of the size, and back.

What an instruction reads was mostly computed just before, so operands are written as how far back
the number of their result lies. It is arithmetic on words alone: any words come back as they were.
"""

import array
import sys
from collections.abc import Callable

__all__ = ["packed", "unpacked"]

_HEADER = 5
_RESULTS = range(59, 400)
"""Instructions that give a result, as far as there are such here: type, result, operands."""
_NONE = frozenset({62, 63, 71, 72, 224, 246, 247, 248, 249, 250})
"""Those between them that give none."""
_MASK = 0xFFFFFFFF


def packed(code: bytes) -> bytes:
    """SPIR-V in words for the compressor."""

    def change(words: "array.array[int]", at: int, size: int, last: int) -> int:
        result = words[at + 2]
        for each in range(at + 3, at + size):
            words[each] = (result - words[each]) & _MASK
        words[at + 2] = (result - last) & _MASK
        return result

    return _changed(code, change)


def unpacked(code: bytes) -> bytes:
    """What `packed` was given."""

    def change(words: "array.array[int]", at: int, size: int, last: int) -> int:
        result = (words[at + 2] + last) & _MASK
        for each in range(at + 3, at + size):
            words[each] = (result - words[each]) & _MASK
        words[at + 2] = result
        return result

    return _changed(code, change)


def _changed(code: bytes, change: "Callable[[array.array[int], int, int, int], int]") -> bytes:
    words = array.array("I", code)
    if sys.byteorder == "big":
        words.byteswap()
    at, last = _HEADER, 0
    while at < len(words):
        size, kind = words[at] >> 16, words[at] & 0xFFFF
        size = max(1, min(size, len(words) - at))
        if kind in _RESULTS and kind not in _NONE and size >= 3:
            last = change(words, at, size, last)
        at += size
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()
