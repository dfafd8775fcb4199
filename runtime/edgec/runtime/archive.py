"""The zip wrapper around a `.vmfb`: where each part lies, what it is called, and its checksum.

`iree-compile` writes modules as zip archives whose parts are stored uncompressed and aligned, so
the file can be mapped and used in place. The runtime ignores the checksums; edgec verifies them,
since a flipped bit in machine code is otherwise executed.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgec.runtime.flatbuffer import Budget

__all__ = ["LOCAL_HEADER", "Entry", "read_entries", "sum_up"]

LOCAL_HEADER = b"PK\x03\x04"
_CENTRAL_HEADER = b"PK\x01\x02"
_END = b"PK\x05\x06"
_END_64_LOCATOR = b"PK\x06\x07"
_END_64 = b"PK\x06\x06"
_SIZE_64 = 0x0001
_UNKNOWN = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One part of the archive, and the two places in the file that hold its checksum."""

    name: str
    offset: int
    size: int
    checksum_offsets: tuple[int, int]

    def holds(self, start: int, size: int) -> bool:
        """Whether a stretch of the file lies in this part."""
        return self.offset <= start and start + size <= self.offset + self.size


def read_entries(budget: Budget) -> tuple[Entry, ...]:
    """The parts of an archive, their checksums verified.

    Raises:
        ModuleError: the archive is truncated or damaged, or a part does not fit its checksum.
    """
    at, count = _directory(budget)
    entries = []
    for _ in range(count):
        entry = _entry(budget, at)
        entries.append(entry)
        at += 46 + sum(budget.u16(at + field) for field in (28, 30, 32))
    return tuple(entries)


def sum_up(data: bytearray, entries: Sequence[Entry], start: int, size: int) -> None:
    """Give the parts of an archive that hold a changed stretch of it their checksum."""
    for entry in entries:
        if entry.holds(start, size):
            checksum = zlib.crc32(memoryview(data)[entry.offset : entry.offset + entry.size])
            for at in entry.checksum_offsets:
                data[at : at + 4] = checksum.to_bytes(4, "little")


def _directory(budget: Budget) -> tuple[int, int]:
    """Where the central directory begins, and how many parts it lists."""
    data = budget.data
    tail = bytes(data[-(22 + 0xFFFF) :])
    found = tail.rfind(_END)
    if found < 0:
        raise budget.damage("it is cut short (the archive has no end)")
    end = len(data) - len(tail) + found
    budget.need(end, 22, "the archive's end")
    count, at = budget.u16(end + 10), budget.u32(end + 16)
    locator = end - 20
    if locator >= 0 and data[locator : locator + 4] == _END_64_LOCATOR:
        end_64 = budget.u64(locator + 8)
        budget.need(end_64, 56, "the archive's end")
        if data[end_64 : end_64 + 4] == _END_64:
            count, at = budget.u64(end_64 + 32), budget.u64(end_64 + 48)
    if count * 46 > len(data):
        raise budget.damage("the archive lists more parts than it can hold")
    return at, count


def _entry(budget: Budget, central: int) -> Entry:
    data = budget.data
    budget.need(central, 46, "the archive's directory")
    if data[central : central + 4] != _CENTRAL_HEADER:
        raise budget.damage("the archive's directory is not where it should be")
    name_size, extra_size = budget.u16(central + 28), budget.u16(central + 30)
    budget.need(central + 46, name_size + extra_size, "the archive's directory")
    name = bytes(data[central + 46 : central + 46 + name_size]).decode(errors="replace")
    size, header = budget.u32(central + 24), budget.u32(central + 42)
    wide = list(_wide_numbers(budget, central + 46 + name_size, extra_size))
    if size == _UNKNOWN and wide:
        size = wide.pop(0)
    if budget.u32(central + 20) == _UNKNOWN and wide:
        wide.pop(0)
    if header == _UNKNOWN and wide:
        header = wide.pop(0)
    budget.need(header, 30, f"the part {name}")
    if data[header : header + 4] != LOCAL_HEADER or budget.u16(header + 8) != 0:
        raise budget.damage(f"the part {name} is not where it should be, or is compressed")
    offset = header + 30 + budget.u16(header + 26) + budget.u16(header + 28)
    budget.need(offset, size, f"the part {name}")
    budget.spend(size)
    checksum = budget.u32(central + 16)
    if zlib.crc32(data[offset : offset + size]) != checksum:
        raise budget.damage(f"the part {name} does not fit its checksum")
    return Entry(name=name, offset=offset, size=size, checksum_offsets=(header + 14, central + 16))


def _wide_numbers(budget: Budget, at: int, size: int) -> Iterator[int]:
    """The 64-bit numbers of the extra field that stands in for 32-bit ones that are too small."""
    end = at + size
    while at + 4 <= end:
        kind, length = budget.u16(at), budget.u16(at + 2)
        if kind == _SIZE_64:
            budget.need(at + 4, length, "the archive's directory")
            yield from (budget.u64(at + 4 + i) for i in range(0, length - 7, 8))
        at += 4 + length
