"""Kernels' SPIR-V changed at random, to the reader and the writer of WGSL.

    python -m tests.toolchain.webgpu.fuzzing --executions 100000

What comes in is written or refused in words (`CompileError`); any other exception, or a kernel
that takes longer than five seconds, is a fault: it ends the run, and the words are left in
`spirv-found`.
"""

import argparse
import random
import signal
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from edgec.runtime.errors import CompileError
from edgec.toolchain.kernels.vulkan.packed_spirv import unpacked
from edgec.toolchain.kernels.vulkan.prebuilt import ARCHIVE
from edgec.toolchain.kernels.vulkan.prebuilt import read as archived
from edgec.toolchain.webgpu.spirv import read
from edgec.toolchain.webgpu.writer import write

__all__ = ["changed", "fault", "kernels"]

_HEADER = 5
_SECONDS = 5
_TELLING = (0, 1, 2, 3, 4, 5, 8, 32, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF)


def kernels() -> list[bytes]:
    """The kernels that edgec brings along for Vulkan, the smallest first."""
    _, files = archived(ARCHIVE)
    return sorted((unpacked(data) for data in files.values()), key=len)


def changed(data: bytes, donor: bytes, chance: random.Random) -> bytes:
    """A kernel with one to three instructions changed, moved, left out or taken from another."""
    parts = [list(part) for part in _instructions(data)]
    others = list(_instructions(donor))
    for _ in range(1 + chance.randrange(3)):
        at = chance.randrange(len(parts))
        part = parts[at]
        match chance.randrange(6):
            case 0 if len(part) > 1:
                part[chance.randrange(1, len(part))] = chance.choice(_TELLING)
            case 1 if len(part) > 1:
                word = chance.randrange(1, len(part))
                other = chance.choice(parts)
                part[word] = other[chance.randrange(1, len(other))] if len(other) > 1 else 0
            case 2:
                del parts[at]
            case 3:
                parts.insert(at, list(chance.choice(parts)))
            case 4:
                parts.insert(at, list(chance.choice(others)))
            case _:
                part[0] = part[0] & 0xFFFF0000 | chance.choice(parts)[0] & 0xFFFF
        if not parts:
            break
    words = [word for part in parts for word in part]
    if chance.random() < 0.1:
        del words[chance.randrange(len(words) + 1) :]
    return data[: 4 * _HEADER] + struct.pack(f"<{len(words)}I", *words)


def _instructions(data: bytes) -> Iterator[Sequence[int]]:
    words = struct.unpack(f"<{len(data) // 4}I", data)
    at = _HEADER
    while at < len(words):
        size = words[at] >> 16
        yield words[at : at + size]
        at += size


def fault(data: bytes) -> tuple[bool, str]:
    """Whether a kernel was written, and what is wrong with how it was not; empty for nothing."""
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        found = read(data)
        for entry in found.entries:
            write(found, entry)
        return bool(found.entries), ""
    except CompileError:
        return False, ""
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is the fault
        return False, repr(error)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"it took longer than {_SECONDS} seconds")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    chance = random.Random(chosen.seed)
    good = kernels()
    begin, written = time.monotonic(), 0
    for _ in range(chosen.executions):
        data = changed(chance.choice(good), chance.choice(good), chance)
        is_written, problem = fault(data)
        written += is_written
        if problem:
            Path("spirv-found").write_bytes(data)
            print(problem)
            return 1
    seconds = time.monotonic() - begin
    print(f"{chosen.executions} kernels, {written} of them written as WGSL, in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
