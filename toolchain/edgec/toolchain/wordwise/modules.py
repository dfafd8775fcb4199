"""A program's executables for Vulkan to the same, with kernels in words behind those with bytes.

An executable as the compiler writes it stays as it is, for devices that have 8-bit storage; what
follows it is found by edgert alone, which takes it on devices that have not:

    "EDW1", count, then of each: which SPIR-V module of the executable's it stands for, the first of
    its words from the mark on, and how many; then the words

All are u32. The mark lies at the first multiple of 4 behind the executable's own content.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import CompileError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.flatbuffer import Budget, root
from edgec.toolchain.webgpu.spirv import Unwritable
from edgec.toolchain.wordwise.kernel import has_bytes, in_words

__all__ = ["MARK", "add_words", "holds_bytes", "with_words"]

MARK = b"EDW1"
_MAGIC = b"VKE1"
_HEADER = 64
_MODULES = 3
_FORMAT = "vulkan-spirv-fb"
_BYTE = 8


def holds_bytes(module: Any) -> bool:
    """Whether a program has tensors of elements of a byte or less, which kernels may store."""
    from iree.compiler import ir

    found = False
    known: dict[Any, bool] = {}

    def is_narrow(type: Any) -> bool:
        if not isinstance(type, ir.ShapedType):
            return False
        element = type.element_type
        return bool(isinstance(element, ir.IntegerType) and element.width <= _BYTE)

    def look(operation: Any) -> Any:
        nonlocal found
        for value in (*operation.results, *_arguments(operation)):
            type = value.type
            if type not in known:
                known[type] = is_narrow(type)
            found |= known[type]
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def _arguments(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            yield from block.arguments


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
            if top.operation.name != "hal.executable":
                continue
            for each in top.operation.regions[0].blocks[0].operations:
                if each.operation.name == "hal.executable.binary":
                    missing += _binary(each.operation)
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return missing


def _binary(operation: Any) -> list[str]:
    from iree.compiler import ir

    if ir.StringAttr(operation.attributes["format"]).value != _FORMAT:
        return []
    data = np.array(operation.attributes["data"]).astype(np.int8).tobytes()
    made, missing = with_words(data)
    if made != data:
        operation.attributes["data"] = ir.Attribute.parse(
            f'dense<"0x{made.hex()}"> : vector<{len(made)}xi8>'
        )
    return missing


def with_words(data: bytes) -> tuple[bytes, list[str]]:
    """An executable with its kernels in words behind it, and why some are missing.

    Raises:
        CompileError: it is not what the compiler writes for Vulkan.
    """
    if data[:4] != _MAGIC:
        raise CompileError("the compiler's executable for Vulkan is of another version")
    budget = Budget(memoryview(data), "an executable")
    made: dict[int, bytes] = {}
    missing = []
    for number, module in enumerate(root(budget, _HEADER).tables(_MODULES)):
        span = module.span(0, 4)
        code = b"" if span is None else data[span.start : span.end]
        if not has_bytes(code):
            continue
        try:
            made[number] = in_words(code)
        except Unwritable as error:
            missing.append(error.what)
    if not made:
        return data, missing
    (content,) = struct.unpack_from("<Q", data, 8)
    whole = data[: _HEADER + content].ljust(-(-(_HEADER + content) // 4) * 4, b"\0")
    at = 2 + 3 * len(made)
    entries = []
    for number, code in made.items():
        entries += [number, at, len(code) // 4]
        at += len(code) // 4
    table = struct.pack(f"<{1 + len(entries)}I", len(made), *entries)
    return b"".join((whole, MARK, table, *made.values())), missing
