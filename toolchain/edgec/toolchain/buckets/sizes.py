"""Sizes that follow the open dimension, read from one program made for two sizes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

from edgec.toolchain.batches.marks import NotInFixedSizes

__all__ = ["NotFilled", "Size", "TooClose", "Two"]


class NotFilled(NotInFixedSizes):
    """A program cannot be made for a fixed size and be filled up to it."""


class TooClose(NotFilled):
    """The two sizes do not tell apart what follows them in steps."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """A number that is `each * ((size + shift) // over) + more`.

    What goes along the open axis in steps makes `over` larger than 1: windows in steps of 2 over
    n elements are `(n + shift) // 2` in number, and windows in steps over these are of this form
    again. `shift` is less than `over`, so that equal numbers are equal sizes.
    """

    each: int
    more: int
    over: int = 1
    shift: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it follows the open size at all."""
        return self.each != 0

    def of(self, size: int) -> int:
        """The number for a size."""
        return self.each * ((size + self.shift) // self.over) + self.more

    def plus(self, other: "Size", times: int = 1) -> "Size":
        """The sum with a multiple of another.

        Raises:
            NotFilled: they do not grow at the same sizes.
        """
        more = self.more + times * other.more
        if not other.is_open:
            return replace(self, more=more)
        if self.is_open and (self.over, self.shift) != (other.over, other.shift):
            raise NotFilled("sizes that follow it in other steps are put together")
        each = self.each + times * other.each
        return replace(other, each=each, more=more) if each else Size(each=0, more=more)

    def in_steps(self, step: int) -> "Size":
        """It divided by a number, without the rest.

        Raises:
            NotFilled: it is no size of this form: half of three times the size.
        """
        if not self.is_open:
            return Size(each=0, more=self.more // step)
        if step % self.each and self.each % step:
            raise NotFilled(f"steps of {step} go along {self.each} times it")
        # Of floors: (each * k + more) // step = (k + more // each) // (step / each).
        common = gcd(self.each, step)
        each, step, more = self.each // common, step // common, self.more // common
        if step == 1:
            return replace(self, each=each, more=more)
        over = self.over * step
        whole, shift = divmod(self.shift + self.over * more, over)
        return Size(each=1, more=whole, over=over, shift=shift)


@dataclass(frozen=True, kw_only=True)
class Two:
    """The two sizes that a program was traced for: `one` is the largest that there may be.

    Attributes:
        one, other: the sizes.
        steps: what was found to follow them in steps (`learn`), `each` of which is 1.
    """

    one: int
    other: int
    steps: list[Size] = field(default_factory=list, compare=False)

    def size(self, here: int, there: int) -> Size:
        """What a number that is `here` for the one and `there` for the other follows.

        Raises:
            NotFilled: no multiple of the size, nor of one in steps that was learnt.
        """
        grown = self._grown(here - there)
        found = [replace(size, more=here - size.of(self.one)) for size in grown]
        return next((size for size in found if not size.more), found[0])

    def growth(self, apart: int) -> Size:
        """A multiple of a size that is larger by `apart` for the one; `more` of it is 0.

        Raises:
            NotFilled: there is none.
        """
        return self._grown(apart)[0]

    def _grown(self, apart: int) -> list[Size]:
        if not apart:
            return [Size(each=0, more=0)]
        found = []
        for base in self._bases():
            each, rest = divmod(apart, base.of(self.one) - base.of(self.other))
            if not rest:
                found.append(replace(base, each=each))
        if not found:
            raise NotFilled("a size grows otherwise than with it")
        return found

    def _bases(self) -> Iterator[Size]:
        yield Size(each=1, more=0)
        yield from self.steps

    def learn(self, size: Size) -> None:
        """Know a size in steps, which numbers alone do not tell.

        Raises:
            TooClose: the two sizes do not tell it from another one.
        """
        base = replace(size, each=1, more=0)
        if size.is_open and base not in self._bases():
            self.steps.append(base)
            if not self.tells(self.other):
                raise TooClose("it goes in steps too large for so few sizes")

    def tells(self, other: int) -> bool:
        """Whether a program for this size, instead of `other`, tells apart all that was learnt.

        What it is smaller by is not proportional for any two of them, and no multiple of a step:
        padding that makes steps come out even is then another, too.
        """
        apart = [(base, base.of(self.one) - base.of(other)) for base in self._bases()]
        if any(less < 2 or gcd(base.over, self.one - other) != 1 for base, less in apart):
            return False
        return len({less * base.over for base, less in apart}) == len(apart)

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
