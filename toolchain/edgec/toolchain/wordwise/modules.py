"""A program's executables for Vulkan to the same, with kernels in words behind those with bytes.

An executable as the compiler writes it stays as it is, for devices that have 8-bit storage; what
follows it is found by edgert alone, which takes it on devices that have not:

    "EDW1", count, then of each: which SPIR-V module of the executable's it stands for, the first of
    its words from the mark on, and how many; then the words

All are u32. The mark lies at the first multiple of 4 behind the executable's own content.
"""

import struct
from pathlib import Path
from typing import Any

from edgec.runtime.files import read_bytes, write_atomically
from edgec.toolchain.nan_kept import keeping_nan
from edgec.toolchain.vulkan_executables import (
    FORMAT,
    HEADER,
    binaries,
    codes,
    data_of,
    format_of,
    opened,
    set_data,
)
from edgec.toolchain.webgpu.spirv import Unwritable
from edgec.toolchain.wordwise.kernel import has_bytes, in_words

__all__ = ["MARK", "add_words", "with_words"]

MARK = b"EDW1"


def add_words(source: Path, output: Path) -> list[str]:
    """Put kernels in words behind those of a program that have bytes.

    Args:
        source: the program where the compiler has made its kernels.
        output: the same to go on with.

    Returns:
        Why others have none.

    Raises:
        FileError: a file cannot be read or written.
        CompileError: an executable is not what the compiler writes for Vulkan.
    """
    from iree.compiler import ir

    module = ir.Module.parse(read_bytes(source), ir.Context())
    missing: list[str] = []
    with module.context, ir.Location.unknown():
        for top in module.body.operations:
            if top.operation.name == "hal.executable":
                for each in binaries(top.operation):
                    missing += _binary(each)
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return missing


def _binary(operation: Any) -> list[str]:
    if format_of(operation) != FORMAT:
        return []
    data = data_of(operation)
    made, missing = with_words(data)
    if made != data:
        set_data(operation, made)
    return missing


def with_words(data: bytes) -> tuple[bytes, list[str]]:
    """An executable with its kernels in words behind it, and why some are missing.

    Raises:
        CompileError: it is not what the compiler writes for Vulkan.
    """
    made: dict[int, bytes] = {}
    missing = []
    for number, code in enumerate(codes(data, opened(data))):
        if not has_bytes(code):
            continue
        try:
            made[number] = keeping_nan(in_words(code))
        except Unwritable as error:
            missing.append(error.what)
    if not made:
        return data, missing
    (content,) = struct.unpack_from("<Q", data, 8)
    whole = data[: HEADER + content].ljust(-(-(HEADER + content) // 4) * 4, b"\0")
    at = 2 + 3 * len(made)
    entries = []
    for number, code in made.items():
        entries += [number, at, len(code) // 4]
        at += len(code) // 4
    table = struct.pack(f"<{1 + len(entries)}I", len(made), *entries)
    return b"".join((whole, MARK, table, *made.values())), missing
