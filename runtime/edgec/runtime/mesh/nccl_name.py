"""NCCL under the name by which IREE's CUDA driver looks for it.

The driver asks the dynamic linker for `libnccl.so`; packages bring `libnccl.so.2` in a folder that
the linker does not search. A library that is loaded already is found by the name in it
(DT_SONAME), whatever its file is called: so one is made that has this name, nothing in it, and a
need for NCCL's own file, whose functions are then found through it. (ELF: gabi, "Dynamic Section".)
"""

import ctypes
import os
import platform
import struct
import sys
from functools import cache

from edgec.runtime.errors import DeviceError

__all__ = ["offer", "stand_in"]

_NAME = "libnccl.so"
_MACHINES = {"x86_64": 62, "aarch64": 183}
_HEADER, _SEGMENT, _ENTRY, _SYMBOL = 64, 56, 16, 24
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_NEEDED, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE, _SONAME = 1, 5, 6, 10, 11, 14
_READ_WRITE = 6


@cache
def offer(path: str) -> None:
    """Let the linker find the library at `path`, an absolute one, as `libnccl.so`.

    Raises:
        DeviceError: not on this system.
    """
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        raise DeviceError(f"IREE's CUDA driver finds no NCCL on {platform.machine()}")
    file = os.memfd_create(_NAME)
    try:
        os.write(file, stand_in(_NAME, path))
        # Kept for good: the driver lets go of what it loaded when the process ends, at which a
        # process with NCCL behind this name died (H200, NCCL 2.28.9).
        ctypes.CDLL(f"/proc/self/fd/{file}", mode=os.RTLD_NOW | os.RTLD_NODELETE)
    except OSError as error:
        raise DeviceError(f"{path} cannot be loaded: {error}") from error
    finally:
        os.close(file)


def stand_in(name: str, needed: str) -> bytes:
    """A shared library for this machine that is called `name` and needs `needed`."""
    texts = [b"", name.encode(), needed.encode()]
    strings = b"\0".join(texts) + b"\0"
    of_name = 1
    of_needed = of_name + len(texts[1]) + 1
    symbols = _HEADER + 3 * _SEGMENT
    dynamic = symbols + _SYMBOL
    entries = [
        (_NEEDED, of_needed),
        (_SONAME, of_name),
        (_STRINGS, dynamic + 7 * _ENTRY),
        (_SYMBOLS, symbols),
        (_STRINGS_SIZE, len(strings)),
        (_SYMBOL_SIZE, _SYMBOL),
        (0, 0),
    ]
    table = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = dynamic + len(table) + len(strings)
    header = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack(
            "<HHIQQQIHHHHHH",
            *(3, _MACHINES[platform.machine()], 1, 0, _HEADER, 0, 0),
            *(_HEADER, _SEGMENT, 3, 0, 0, 0),
        )
    )
    segments = b"".join(
        struct.pack("<IIQQQQQQ", kind, _READ_WRITE, start, start, start, length, length, align)
        for kind, start, length, align in (
            (_LOAD, 0, size, 4096),
            (_DYNAMIC, dynamic, len(table), 8),
            (_STACK, 0, 0, 16),
        )
    )
    return header + segments + bytes(_SYMBOL) + table + strings
