"""A program's executables for Vulkan, where the compiler has made SPIR-V and not the module."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgec.runtime.errors import CompileError
from edgec.runtime.flatbuffer import Budget, Span, Table, root

__all__ = [
    "AFTER_SHADERS",
    "BEFORE_SHADERS",
    "FORMAT",
    "HEADER",
    "binaries",
    "codes",
    "data_of",
    "format_of",
    "opened",
    "set_data",
    "spans",
]

BEFORE_SHADERS = ("--compile-to=hal", "--emit-mlir-bytecode")
"""Flags that end a compile where kernels are SPIR-V in the program."""

AFTER_SHADERS = ("--compile-from=hal",)
"""Flags that go on from there."""

FORMAT = "vulkan-spirv-fb"
"""What the compiler calls them."""

HEADER = 64
"""Bytes before their content, which begin with their magic; its size is a u64 at 8."""

_MAGIC = b"VKE1"
_MODULES = 3


def binaries(executable: Any) -> Iterator[Any]:
    """Each `hal.executable.binary` of a `hal.executable`."""
    for each in executable.regions[0].blocks[0].operations:
        if each.operation.name == "hal.executable.binary":
            yield each.operation


def format_of(binary: Any) -> str:
    """What its bytes are."""
    from iree.compiler import ir

    return str(ir.StringAttr(binary.attributes["format"]).value)


def data_of(binary: Any) -> bytes:
    """Its bytes."""
    return np.array(binary.attributes["data"]).astype(np.int8).tobytes()


def set_data(binary: Any, data: bytes) -> None:
    """Give it other bytes."""
    from iree.compiler import ir

    binary.attributes["data"] = ir.Attribute.parse(
        f'dense<"0x{data.hex()}"> : vector<{len(data)}xi8>'
    )


def opened(data: bytes) -> Table:
    """The content of an executable.

    Raises:
        CompileError: it is not what the compiler writes for Vulkan.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise CompileError("the compiler's executable for Vulkan is of another version")
    return root(Budget(memoryview(data), "an executable"), HEADER)


def spans(table: Table) -> Iterator[Span]:
    """Where the SPIR-V modules of what was `opened` lie in it, in their order."""
    for module in table.tables(_MODULES):
        span = module.span(0, 4)
        yield Span(0, 0) if span is None else span


def codes(data: bytes, table: Table) -> Iterator[bytes]:
    """The SPIR-V modules of what was `opened`, in their order; empty where one has none."""
    for span in spans(table):
        yield data[span.start : span.end]
