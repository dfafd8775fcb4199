"""What a device answers to a description of what a program computes: a kernel, or why not.

A description (`edgec.toolchain.match`) is matched once. Each device's folder in
`edgec.toolchain.kernels` answers it, and every answer is kept here, so that the user can be told
what share of the program edgec's own kernels do, and what was left to the compiler and why.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Answers", "Declined", "Kernel", "Origin", "Work"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a description computes and moves, by its meaning and not by any kernel's.

    Attributes:
        flops: additions and multiplications, two for each product that is summed.
        bytes: what must be read and written at least once.
    """

    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A description is done by a kernel of edgec's own.

    Attributes:
        name: the kernel's.
        key: what its tile is known by from one compile to the next; empty where none is chosen.
        roomy: whether it takes more memory during a call than a plainer one.
        by: what compiled it, where that is one of several; empty elsewhere.
    """

    name: str
    key: str = ""
    roomy: bool = False
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Declined:
    """A description is left to the compiler; `reason` says why, to the user (`a width of 97`)."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The name and location of an operation, for an answer that comes after it is replaced."""

    name: str
    location: Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of one description.

    Attributes:
        what: what is computed, in a few words (`attention: 12 heads, 197 x 197 x 64, f16`).
        operation: the name of the operation that it was read from (`stablehlo.dot_general`).
        where: the user's own line, as `file:line`, where it is known.
        work: how much that is.
        outcome: the device's answer.
        others: names and lines of more operations that it was read from.
    """

    what: str
    operation: str
    where: str | None
    work: Work
    outcome: Kernel | Declined
    others: tuple[tuple[str, str | None], ...] = ()


@dataclass(kw_only=True)
class Answers:
    """All answers of one compile, in the order they were given.

    Attributes:
        given: the answers.
        before: how much the program computed before the first kernel was placed, once counted.
    """

    before: Work | None = None
    given: list[Answer] = field(default_factory=list)

    def record(
        self,
        op: Any,
        what: str,
        work: Work,
        outcome: Kernel | Declined,
        others: Iterable[Any] = (),
    ) -> bool:
        """Keep an answer; whether it is a kernel.

        Args:
            op: the `ir.Operation` that the description was read from, or its `Origin`.
            what: what is computed, in a few words.
            work: how much that is.
            outcome: the device's answer.
            others: more operations that it was read from.
        """
        from edgec.toolchain.ir.places import place_of

        self.given.append(
            Answer(
                what=what,
                operation=op.name,
                where=place_of(op),
                work=work,
                outcome=outcome,
                others=tuple((each.name, place_of(each)) for each in others),
            )
        )
        return isinstance(outcome, Kernel)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.given)
