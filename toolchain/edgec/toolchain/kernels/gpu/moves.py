"""What kernels that put parts into arrays, and take slices of them, are asked for on any GPU.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.spec import Answers, Declined
from edgec.toolchain.match.rotary import Rotary

__all__ = ["MOST_AXES", "MOST_STARTS", "Mover", "Part", "Place"]

MOST_AXES = 4
MOST_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is put into an array: a value, or what it is before it is turned by position."""

    value: Any
    rotary: Rotary | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the elements of a slice lie in its array.

    Attributes:
        base: the place of the first, by the starts that are known.
        starts: the others, with the elements from one place to the next and the last one's number.
        axes: its sizes, and elements from one to the next in the array, the innermost first.
    """

    base: int = 0
    starts: tuple[tuple[Any, int, int], ...] = ()
    axes: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        """Elements of the slice."""
        return math.prod(size for size, _ in self.axes) if self.axes else 0

    def whole(self, parts: Sequence[Part]) -> "Place":
        """The same, or where parts lie that are as large as their arrays."""
        if self.axes or not parts:
            return self
        return Place(axes=((math.prod(shape(parts[0].value)), 1),))


class Mover(Protocol):
    """A device's kernels for that.

    Attributes:
        elements: the types that they move.
        answers: what became of each slice.
    """

    elements: tuple[str, ...]
    answers: Answers

    def put(
        self,
        parts: Sequence[Part],
        arrays: Sequence[Any],
        place: Place,
        beside: Rotary | None = None,
    ) -> list[Any] | Declined:
        """Up to two parts into arrays at one place, or all over them; and rows turned beside that.

        Args:
            parts: what is written; of the arrays' type, or of f32 where that is f16.
            arrays: the arrays, whose other elements stay.
            place: where; without axes parts are as large as arrays.
            beside: what becomes an array of its own, the last result.
        """

    def take(self, array: Any, kind: Any, place: Place) -> list[Any] | Declined:
        """A slice of an array to a value of type `kind`."""

    def turns(self, parts: Sequence[Part], beside: Rotary) -> bool:
        """Whether one kernel puts parts and turns rows beside them."""
