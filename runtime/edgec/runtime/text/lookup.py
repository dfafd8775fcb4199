"""What a text may go on with, looked up in the text itself: what followed the same words before."""

from collections.abc import Sequence

__all__ = ["Lookup"]

_LONGEST, _SHORTEST = 3, 2
"""Tokens that have to be alike."""


class Lookup:
    """A text that grows, and where each run of its tokens stood last."""

    def __init__(self) -> None:
        self._text: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}

    @property
    def size(self) -> int:
        """How many tokens it has."""
        return len(self._text)

    def extend(self, tokens: Sequence[int]) -> None:
        """Tokens that the text goes on with."""
        for token in tokens:
            # What ends here is known only once something follows it.
            for size in range(_SHORTEST, min(_LONGEST, len(self._text)) + 1):
                self._places[tuple(self._text[-size:])] = len(self._text)
            self._text.append(token)

    def guess(self, count: int) -> list[int]:
        """Up to `count` tokens that may follow; none where nothing like the end was there."""
        for size in range(min(_LONGEST, len(self._text)), _SHORTEST - 1, -1):
            place = self._places.get(tuple(self._text[-size:]))
            if place is not None:
                return self._text[place : place + count]
        return []
