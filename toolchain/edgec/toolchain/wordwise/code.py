"""The words of a SPIR-V module to its operations, and back."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from edgec.runtime.errors import CompileError

__all__ = ["Operation", "read", "written"]

_MAGIC = 0x07230203
_HEADER = 5
_BOUND = 3
"""Where a module says which identifiers it uses: those below."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation with all its words: result type and result, where it has them, come first."""

    op: int
    words: tuple[int, ...]


def read(data: bytes) -> tuple[int, list[Operation]]:
    """The bound of a module's identifiers, and its operations in order.

    Raises:
        CompileError: these are no SPIR-V words.
    """
    if len(data) % 4 or len(data) < 4 * _HEADER:
        raise CompileError("a kernel's SPIR-V is cut off")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if words[0] != _MAGIC:
        raise CompileError("a kernel is not SPIR-V")
    return words[_BOUND], list(_operations(words))


def written(data: bytes, bound: int, operations: Iterable[Operation]) -> bytes:
    """A module with other operations than `data`, and its header but for the bound."""
    words = list(struct.unpack_from(f"<{_HEADER}I", data))
    words[_BOUND] = bound
    for each in operations:
        words += (len(each.words) + 1 << 16 | each.op, *each.words)
    return struct.pack(f"<{len(words)}I", *words)


def _operations(words: tuple[int, ...]) -> Iterator[Operation]:
    at = _HEADER
    while at < len(words):
        size, op = words[at] >> 16, words[at] & 0xFFFF
        if not size or at + size > len(words):
            raise CompileError("a kernel's SPIR-V is cut off")
        yield Operation(op=op, words=words[at + 1 : at + size])
        at += size
