"""The longest tail of a product that a device takes, and why it took no longer one."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.tail import Tail

__all__ = ["longest"]

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
