"""The longest tail of a product that a device takes, and why it took no longer one."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from edgec.toolchain.ir.elementwise import elementwise
from edgec.toolchain.kernels.spec import Answers, Declined, Work
from edgec.toolchain.match.tail import Tail

__all__ = ["longest", "say_cut_short"]

_Taken = TypeVar("_Taken")


def longest(
    tails: Sequence[Tail], take: Callable[[Tail], _Taken | Declined]
) -> tuple[_Taken, Declined | None]:
    """What a device makes of the longest tail that it takes, and why it took no longer one.

    Args:
        tails: the tails of one sum, the shortest first, which has no steps.
        take: what a device makes of a tail; it must take the one without steps.
    """
    why: Declined | None = None
    for tail in reversed(tails):
        taken = take(tail)
        if not isinstance(taken, Declined):
            return taken, why
        why = why or taken
    raise ValueError("a device must take a sum without a tail")


def say_cut_short(value: Any, why: Declined | None, answers: Answers) -> None:
    """Keep why what follows a tail's value is left to the compiler, if anything does.

    Args:
        value: the `ir.Value` that the tail ends in.
        why: why the device took no longer tail.
        answers: where that is kept.
    """
    if why is None or not why.reason:
        return
    users = [use.owner.operation for use in value.uses]
    left = [op for op in users if elementwise(op) is not None]
    if left:
        answers.record(left[0], "what follows a product", Work(), why, left[1:])
