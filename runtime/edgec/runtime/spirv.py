"""A module's SPIR-V to the capabilities that it declares, by the numbers of SPIR-V's own table."""

import struct
from collections.abc import Iterator
from pathlib import Path

from edgec.runtime.vmfb import parse

__all__ = ["asks_of_subgroups", "capabilities", "has_subgroups"]

_FORMAT = "vulkan-spirv"
_MAGIC = struct.pack("<I", 0x07230203)
_HEADER = 5  # words
_OP_CAPABILITY = 17
_SUBGROUPS = frozenset({*range(61, 69), 6022, 6400})
"""GroupNonUniform and its kind; matrices of NVIDIA's and of Khronos' cooperative extensions."""


def capabilities(module: Path) -> frozenset[int]:
    """The capabilities of all SPIR-V in a module file.

    Raises:
        ModuleError: it is no module.
    """
    data = module.read_bytes()
    return frozenset(
        number
        for segment in parse(memoryview(data), str(module)).segments
        if segment.code.startswith(_FORMAT)
        for number in _declared(data[segment.offset : segment.offset + segment.size])
    )


def asks_of_subgroups(module: Path) -> bool:
    """Whether answers depend on how many threads go in step, which differs between devices."""
    return bool(capabilities(module) & _SUBGROUPS)


def has_subgroups(code: bytes) -> bool:
    """The same of SPIR-V itself."""
    return not _SUBGROUPS.isdisjoint(_declared(code))


def _declared(code: bytes) -> Iterator[int]:
    """Capabilities come first in SPIR-V, so each program is read to the first other instruction."""
    start = code.find(_MAGIC)
    while start >= 0:
        at = start + 4 * _HEADER
        while at + 8 <= len(code):
            word, number = struct.unpack_from("<II", code, at)
            if word != 2 << 16 | _OP_CAPABILITY:
                break
            yield number
            at += 8
        start = code.find(_MAGIC, start + 4)
