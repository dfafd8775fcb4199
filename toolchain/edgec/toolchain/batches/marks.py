"""Which axis of a value counts examples, read from the same program for two sizes of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Batch", "Mark", "NotByExample", "NotInFixedSizes"]


class NotInFixedSizes(Exception):
    """A function with an open dimension cannot be made of programs for fixed sizes.

    Attributes:
        why: what stands in the way, as a clause.
        where: its place in the user's source, if it has one.
    """

    def __init__(self, why: str, where: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.where = where


class NotByExample(NotInFixedSizes):
    """The answers for one example depend on others, or nobody knows whether they do."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """An axis of a value that counts examples.

    Attributes:
        axis: which one.
        each: how many of its elements, one after the other, belong to one example.
        before: how often it goes through all examples so: 5 where rows of 5 words of each example
            are one axis, and the first words of all come first.
        uniform: whether all elements along it are the same, so that any `before` is true.
    """

    axis: int
    each: int
    before: int = 1
    uniform: bool = field(default=False, compare=False)

    @property
    def total(self) -> int:
        """How many elements along it belong to one example."""
        return self.each * self.before

    def going_through(self, before: int) -> "Mark":
        """The same elements along it, with another `before`.

        Raises:
            NotByExample: there are not as many.
        """
        each, rest = divmod(self.total, before)
        if rest:
            raise NotByExample("examples lie otherwise than before")
        return replace(self, each=each, before=before)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The two sizes that a program was traced for."""

    one: int
    other: int

    def mark(self, here: Sequence[int], there: Sequence[int]) -> Mark | None:
        """The axis by which two shapes of one value differ; None if they are equal.

        Raises:
            NotByExample: they differ otherwise than by a number of examples on one axis.
        """
        if len(here) != len(there):
            raise NotByExample("ranks of values change with the batch")
        axes = [axis for axis, pair in enumerate(zip(here, there, strict=True)) if len({*pair}) > 1]
        if not axes:
            return None
        (axis, *others) = axes
        each = here[axis] // self.one
        if others or here[axis] != each * self.one or there[axis] != each * self.other:
            raise NotByExample("a size grows otherwise than with the batch")
        return Mark(axis=axis, each=each)

    def mark_of(self, here: Any, there: Any) -> Mark | None:
        """The same of two `ir.Value`s."""
        kinds = (here.type, there.type)
        if kinds[0] == kinds[1]:
            return None
        if not all(hasattr(kind, "shape") for kind in kinds):
            raise NotByExample("a type changes with the batch")
        return self.mark(*(list(kind.shape) for kind in kinds))
