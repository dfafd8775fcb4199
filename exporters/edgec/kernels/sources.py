"""A kernel's source with what depends on the arrays it is called with, to `Code` for these."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgec.runtime.errors import UsageError
from edgec.toolchain.own_kernels import Code, Language

__all__ = ["Arrays", "Count", "Counts", "Definitions", "Numbers", "Plain", "Source", "three"]

Arrays = tuple[Any, ...]
Counts = int | Sequence[int]
Count = Counts | Callable[..., Counts]
"""One to three integers (workgroups along x, y and z), or a function of the arrays that says."""

Numbers = Sequence[int] | Callable[..., Sequence[int]]
Definitions = Mapping[str, Any] | Callable[..., Mapping[str, Any]]

_MOST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is said of a kernel for one kind of device, before its arrays are known."""

    def codes(self, name: str, arrays: Arrays, results: Arrays) -> tuple[Code, ...]:
        """Its code for arrays of these shapes.

        Args:
            name: the kernel's, for messages.
            arrays: what it is called with; they have a `shape` and a `dtype`.
            results: what it gives; likewise.

        Raises:
            UsageError: a grid, numbers or definitions that do not fit.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Plain(Source):
    """Text in a language that edgec compiles; `grid`, `numbers`, `defines` may be functions."""

    language: Language
    text: str
    entry: str
    grid: Count = 1
    group: Counts = 1
    shared: int = 0
    numbers: Numbers = ()
    defines: Definitions = field(default_factory=dict)
    capability: int = 0

    def codes(self, name: str, arrays: Arrays, results: Arrays) -> tuple[Code, ...]:
        """The one code that it is."""
        defines = self.defines(*arrays) if callable(self.defines) else self.defines
        return (
            Code(
                language=self.language,
                text=self.text,
                entry=self.entry,
                grid=three(self.grid, arrays, f"the grid of {name}"),
                group=three(self.group, arrays, f"the group of {name}"),
                shared=self.shared,
                numbers=whole(self.numbers, arrays, f"the numbers of {name}"),
                defines={key: str(value) for key, value in defines.items()},
                capability=self.capability,
            ),
        )


def three(given: Count, arrays: Arrays, what: str) -> tuple[int, int, int]:
    """Counts along x, y and z; those that are not said are 1."""
    found = given(*arrays) if callable(given) else given
    counts = tuple(found) if isinstance(found, Sequence) else (found,)
    right = all(isinstance(n, int) and 1 <= n <= _MOST for n in counts)
    if not right or not 1 <= len(counts) <= 3:
        raise UsageError(
            f"{what} is {found!r}", hint="one to three integers from 1 on, or a function of them"
        )
    first, second, third = (*counts, 1, 1)[:3]
    return first, second, third


def whole(given: Numbers, arrays: Arrays, what: str) -> tuple[int, ...]:
    """Integers of 32 bits."""
    found = tuple(given(*arrays) if callable(given) else given)
    if not all(isinstance(n, int) and -_MOST <= n <= _MOST for n in found):
        raise UsageError(f"{what} are {found!r}", hint="integers that 32 bits hold")
    return found
