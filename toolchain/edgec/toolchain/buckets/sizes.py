"""Sizes that follow the open dimension, read from one program made for two sizes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.batches.marks import NotInFixedSizes

__all__ = ["NotFilled", "Size", "Two"]


class NotFilled(NotInFixedSizes):
    """A program cannot be made for a fixed size and be filled up to it."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """A number that is `each` times the open size plus `more`."""

    each: int
    more: int

    @property
    def is_open(self) -> bool:
        """Whether it follows the open size at all."""
        return self.each != 0

    def of(self, size: int) -> int:
        """The number for a size."""
        return self.each * size + self.more


@dataclass(frozen=True, kw_only=True)
class Two:
    """The two sizes that a program was traced for: `one` is the largest that there may be."""

    one: int
    other: int

    def size(self, here: int, there: int) -> Size:
        """What a number that is `here` for the one and `there` for the other follows.

        Raises:
            NotFilled: no multiple of the size.
        """
        each, rest = divmod(here - there, self.one - self.other)
        if rest:
            raise NotFilled("a size grows otherwise than with it")
        return Size(each=each, more=here - each * self.one)

    def shape(self, here: Sequence[int], there: Sequence[int]) -> tuple[Size, ...]:
        """The same of two shapes.

        Raises:
            NotFilled: their ranks differ, or a size shrinks where the open one grows.
        """
        if len(here) != len(there):
            raise NotFilled("ranks of values change with it")
        sizes = tuple(self.size(*both) for both in zip(here, there, strict=True))
        if any(size.each < 0 for size in sizes):
            raise NotFilled("a size shrinks where it grows")
        return sizes

    def shape_of(self, here: Any, there: Any) -> tuple[Size, ...]:
        """The same of two `ir.Value`s of tensors; none for values that are no tensors."""
        if not all(hasattr(value.type, "shape") for value in (here, there)):
            if here.type != there.type:
                raise NotFilled("a type changes with it")
            return ()
        if here.type.element_type != there.type.element_type:
            raise NotFilled("a type changes with it")
        return self.shape(list(here.type.shape), list(there.type.shape))
