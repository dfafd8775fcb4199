"""Numbers, texts and lists to the bytes of a form: what `runtime/c/text/reading.c` reads."""

from collections.abc import Iterable, Sequence

__all__ = ["Writer"]


class Writer:
    """Bytes that grow.

    Numbers have seven bits a byte, the lowest first, and a bit that says whether more follow.
    """

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def data(self) -> bytes:
        """What was written."""
        return bytes(self._data)

    def byte(self, value: int) -> None:
        """One byte."""
        self._data.append(value)

    def number(self, value: int) -> None:
        """A number of up to 32 bits."""
        while value >= 0x80:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)

    def step(self, value: int) -> None:
        """A number that may be below 0."""
        self.number(value << 1 if value >= 0 else ~value << 1 | 1)

    def text(self, value: str | bytes) -> None:
        """Bytes behind their count."""
        data = value.encode() if isinstance(value, str) else value
        self.number(len(data))
        self._data += data

    def raw(self, value: bytes) -> None:
        """Bytes alone."""
        self._data += value

    def numbers(self, values: Sequence[int]) -> None:
        """A list of numbers."""
        self.number(len(values))
        for value in values:
            self.number(value)

    def ranges(self, values: Iterable[tuple[int, int]]) -> None:
        """Pairs of a first and a last number, in order, each by its distance; no count."""
        end = 0
        for first, last in values:
            self.number(first - end)
            self.number(last - first)
            end = last + 1
