"""Kernels for Vulkan that are changed where they stand in a finished module."""

from collections.abc import Callable, Sequence
from pathlib import Path

from edgec.runtime.archive import sum_up
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.vmfb import parse
from edgec.toolchain.subgroup_sizes import saying
from edgec.toolchain.vulkan_executables import FORMAT, opened, spans

__all__ = ["change_kernels"]

_Change = Callable[[bytes], bytes | None]


def change_kernels(path: Path, changes: Sequence[_Change], lanes: int = 0) -> None:
    """Change the kernels of a module file in place.

    Args:
        path: of the module.
        changes: each takes a SPIR-V module and gives one of the same length, or None to leave it.
        lanes: of the subgroups that kernels count on, to be said where they have any; 0 if they
            count on no number.

    Raises:
        FileError: the file cannot be read or written.
        ModuleError: it is no module.
        CompileError: a kernel is no SPIR-V, or has no place for that number.
    """
    data = bytearray(read_bytes(path))
    found = parse(memoryview(data).toreadonly(), path.name)
    is_changed = False
    for segment in found.segments:
        if segment.code != FORMAT:
            continue
        before = bytes(data[segment.offset : segment.offset + segment.size])
        content = bytearray(before)
        for span in spans(opened(before)):
            code = before[span.start : span.end]
            for change in changes if code else ():
                code = change(code) or code
            content[span.start : span.end] = code
        if lanes:
            content = bytearray(saying(bytes(content), lanes))
        if content != before:
            data[segment.offset : segment.offset + segment.size] = content
            sum_up(data, found.archive, segment.offset, segment.size)
            is_changed = True
    if is_changed:
        with write_atomically(path) as stream:
            stream.write(data)
