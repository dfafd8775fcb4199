"""Where a module file's bytes go: byte code, executables, constants, debug information, rest."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from edgec.runtime.vmfb import Vmfb

__all__ = ["LedgerEntry", "Part", "SizeLedger"]


class Part(Enum):
    """What a stretch of the file is for."""

    BYTECODE = "bytecode"
    EXECUTABLE = "executable"
    CONSTANT = "constant"
    DEBUG = "debug"
    REST = "rest"


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One stretch of the file; `format` is set for executables. `size` is in bytes."""

    part: Part
    name: str
    size: int
    format: str = ""


@dataclass(frozen=True, kw_only=True)
class SizeLedger:
    """All bytes of a module file; the entries add up to `total` exactly.

    `rest` is what holds the others together: tables, names, signatures, alignment, the archive.
    """

    total: int
    entries: tuple[LedgerEntry, ...]

    @classmethod
    def of(cls, file: Vmfb) -> "SizeLedger":
        """The ledger of a parsed file."""
        entries = [LedgerEntry(part=Part.BYTECODE, name="bytecode", size=file.bytecode.size)]
        seen: set[tuple[int, int]] = set()
        for segment in file.segments:
            if (segment.offset, segment.size) in seen:
                continue
            seen.add((segment.offset, segment.size))
            entries.append(
                LedgerEntry(
                    part=Part.EXECUTABLE if segment.code else Part.CONSTANT,
                    name=segment.name or f"segment {segment.index}",
                    size=segment.size,
                    format=segment.code,
                )
            )
        if file.debug is not None:
            entries.append(
                LedgerEntry(part=Part.DEBUG, name="source locations", size=file.debug.size)
            )
        rest = file.size - sum(entry.size for entry in entries)
        entries.append(LedgerEntry(part=Part.REST, name="rest", size=rest))
        return cls(total=file.size, entries=tuple(entries))

    def by_part(self) -> dict[Part, int]:
        """Bytes of each part, in the order of `Part`; all parts are there."""
        return {
            part: sum(entry.size for entry in self.entries if entry.part is part) for part in Part
        }

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "total": self.total,
            "parts": {part.value: size for part, size in self.by_part().items()},
            "entries": [
                {
                    "part": entry.part.value,
                    "name": entry.name,
                    "size": entry.size,
                    **({"format": entry.format} if entry.format else {}),
                }
                for entry in self.entries
            ],
        }
