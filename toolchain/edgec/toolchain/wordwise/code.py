"""The words of a SPIR-V module to its operations, and back."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from edgec.toolchain.spirv_words import HEADER, operations

__all__ = ["Operation", "read", "written"]

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
    found = [Operation(op=op, words=words) for op, words in operations(data)]
    return struct.unpack_from("<I", data, 4 * _BOUND)[0], found


def written(data: bytes, bound: int, made: Iterable[Operation]) -> bytes:
    """A module with other operations than `data`, and its header but for the bound."""
    words = list(struct.unpack_from(f"<{HEADER}I", data))
    words[_BOUND] = bound
    for each in made:
        words += (len(each.words) + 1 << 16 | each.op, *each.words)
    return struct.pack(f"<{len(words)}I", *words)
