"""Kernels for Vulkan that are changed where they stand in a finished module."""

from collections.abc import Callable, Sequence
from pathlib import Path

from edgec.runtime.archive import sum_up
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.vmfb import parse
from edgec.toolchain.vulkan_executables import FORMAT, opened, spans

__all__ = ["change_kernels"]

_Change = Callable[[bytes], bytes | None]


def change_kernels(path: Path, changes: Sequence[_Change]) -> int:
    """Change the kernels of a module file in place; how many there were to change.

    Args:
        path: of the module.
        changes: each takes a SPIR-V module and gives one of the same length, or None to leave it.

    Raises:
        FileError: the file cannot be read or written.
        ModuleError: it is no module.
        CompileError: a kernel is no SPIR-V.
    """
    data = bytearray(read_bytes(path))
    found = parse(memoryview(data).toreadonly(), path.name)
    count = 0
    for segment in found.segments:
        if segment.code != FORMAT:
            continue
        content = bytes(data[segment.offset : segment.offset + segment.size])
        before = count
        for span in spans(opened(content)):
            code = content[span.start : span.end]
            for change in changes if code else ():
                code = change(code) or code
            if code != content[span.start : span.end]:
                at = segment.offset + span.start
                data[at : at + len(code)] = code
                count += 1
        if count > before:
            sum_up(data, found.archive, segment.offset, segment.size)
    if count:
        with write_atomically(path) as stream:
            stream.write(data)
    return count
