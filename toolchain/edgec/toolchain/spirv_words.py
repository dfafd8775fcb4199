"""The words of a SPIR-V module, operation by operation."""

import struct
from collections.abc import Iterator

from edgec.runtime.errors import CompileError

__all__ = ["HEADER", "operations"]

HEADER = 5
"""Words before the first operation."""

_MAGIC = 0x07230203


def operations(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each operation's code, and the words behind it.

    Raises:
        CompileError: these are no SPIR-V words, or they are cut off.
    """
    if len(data) % 4 or len(data) < 4 * HEADER:
        raise CompileError("a kernel's SPIR-V is cut off")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if words[0] != _MAGIC:
        raise CompileError("a kernel is not SPIR-V")
    at = HEADER
    while at < len(words):
        size, op = words[at] >> 16, words[at] & 0xFFFF
        if not size or at + size > len(words):
            raise CompileError("a kernel's SPIR-V is cut off")
        yield op, words[at + 1 : at + size]
        at += size
