"""Untrusted FlatBuffer bytes to fields: every offset and count is checked before it is followed.

Whether an offset may be believed is decided before it is used. A file can make
many fields point at one long vector, so a reader also has a budget: the bytes and entries that it
visits in all are bounded by the size of the buffer, and a file beyond that is refused.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from edgec.runtime.errors import ModuleError

__all__ = ["Budget", "Span", "Table", "root"]

_BUDGET_FACTOR = 16
_U16, _I32, _U32, _U64 = (struct.Struct(f"<{kind}") for kind in "HiIQ")


@dataclass(frozen=True)
class Span:
    """A stretch of bytes, from the start of the buffer."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.start + self.size


class Budget:
    """How much a reader may still visit, and the file's name for messages."""

    def __init__(self, data: memoryview, subject: str) -> None:
        self.data = data
        self.subject = subject
        self.left = _BUDGET_FACTOR * len(data) + 4096

    def spend(self, amount: int) -> None:
        """Count a visit.

        Raises:
            ModuleError: the file makes the reader go in circles.
        """
        self.left -= amount
        if self.left < 0:
            raise self.damage("its tables refer to each other without end")

    def damage(self, what: str) -> ModuleError:
        """The error for damage, to be raised by the caller."""
        return ModuleError(
            f"{self.subject} is damaged: {what}", hint="copy the file again, or compile it again"
        )

    def need(self, start: int, size: int, what: str) -> None:
        """Check that a stretch lies in the buffer.

        Raises:
            ModuleError: it does not.
        """
        if start < 0 or size < 0 or start + size > len(self.data):
            raise self.damage(f"{what} lies outside the file")

    def u8(self, at: int) -> int:
        """An unsigned byte."""
        self.need(at, 1, "a byte")
        return self.data[at]

    def u16(self, at: int) -> int:
        """A 16-bit unsigned number."""
        self.need(at, 2, "a number")
        return int(_U16.unpack_from(self.data, at)[0])

    def i32(self, at: int) -> int:
        """A 32-bit signed number."""
        self.need(at, 4, "a number")
        return int(_I32.unpack_from(self.data, at)[0])

    def u32(self, at: int) -> int:
        """A 32-bit unsigned number."""
        self.need(at, 4, "a number")
        return int(_U32.unpack_from(self.data, at)[0])

    def u64(self, at: int) -> int:
        """A 64-bit unsigned number."""
        self.need(at, 8, "a number")
        return int(_U64.unpack_from(self.data, at)[0])


class Table:
    """One FlatBuffer table whose vtable has been checked; fields are asked for by their id.

    Attributes:
        position: its first byte.
        fields: the first byte of the list that says where its fields are (its vtable).
        size: its bytes, without what its fields point to.
    """

    def __init__(self, budget: Budget, position: int) -> None:
        self._budget = budget
        self.position = position
        budget.spend(8)
        self.fields = position - budget.i32(position)
        budget.need(self.fields, 4, "a field list")
        self._fields_size = budget.u16(self.fields)
        self.size = budget.u16(self.fields + 2)
        if self._fields_size < 4 or self._fields_size % 2 or self.size < 4:
            raise budget.damage("a field list has an impossible size")
        budget.need(self.fields, self._fields_size, "a field list")
        budget.need(position, self.size, "a table")

    def _field(self, field: int, size: int) -> int:
        """The absolute offset of a field of so many bytes, or 0 when it is absent."""
        slot = 4 + 2 * field
        if slot + 2 > self._fields_size:
            return 0
        offset = self._budget.u16(self.fields + slot)
        if offset == 0:
            return 0
        if offset + size > self.size:
            raise self._budget.damage("a field lies outside its table")
        return self.position + offset

    def _target(self, field: int) -> int:
        """Where an offset field points, or 0 when it is absent."""
        at = self._field(field, 4)
        return at + self._budget.u32(at) if at else 0

    def u8(self, field: int, default: int = 0) -> int:
        """An unsigned byte."""
        at = self._field(field, 1)
        return self._budget.u8(at) if at else default

    def i32(self, field: int, default: int = 0) -> int:
        """A 32-bit signed number."""
        at = self._field(field, 4)
        return self._budget.i32(at) if at else default

    def u32(self, field: int, default: int = 0) -> int:
        """A 32-bit unsigned number."""
        at = self._field(field, 4)
        return self._budget.u32(at) if at else default

    def u64(self, field: int, default: int = 0) -> int:
        """A 64-bit unsigned number."""
        at = self._field(field, 8)
        return self._budget.u64(at) if at else default

    def table(self, field: int) -> "Table | None":
        """A table."""
        at = self._target(field)
        return Table(self._budget, at) if at else None

    def span(self, field: int, element: int = 1) -> Span | None:
        """The elements of a vector of `element` bytes each, or None when it is absent."""
        at = self._target(field)
        if not at:
            return None
        size = self._budget.u32(at) * element
        self._budget.need(at + 4, size, "a vector")
        return Span(at + 4, size)

    def text_span(self, field: int) -> Span | None:
        """The bytes of a string, without its terminator, or None when it is absent."""
        return self.span(field)

    def text(self, field: int) -> str:
        """A string; empty when it is absent."""
        span = self.span(field)
        if span is None:
            return ""
        self._budget.spend(span.size)
        try:
            return bytes(self._budget.data[span.start : span.end]).decode()
        except UnicodeDecodeError:
            raise self._budget.damage("a name is not text") from None

    def tables(self, field: int) -> Iterator["Table"]:
        """The tables of a vector of tables."""
        span = self.span(field, 4)
        if span is None:
            return
        for at in range(span.start, span.end, 4):
            yield Table(self._budget, at + self._budget.u32(at))


def root(budget: Budget, start: int) -> Table:
    """The root table of the FlatBuffer that begins at `start`."""
    return Table(budget, start + budget.u32(start))
