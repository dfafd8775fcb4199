"""Whether descriptions are compared with their operations now, and what came of it.

Free of the compiler, so that whoever runs the passes can ask for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

__all__ = ["Validation", "being_compared", "validating"]


@dataclass(kw_only=True)
class Validation:
    """What was compared so far.

    Attributes:
        same: how many descriptions of each kind agree with their operations.
        left: why others were not compared.
    """

    same: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


_CURRENT: ContextVar[Validation | None] = ContextVar("validation", default=None)


@contextmanager
def validating(found: Validation | None = None) -> Iterator[Validation]:
    """Compare every description that is placed inside of this with its operations.

    Args:
        found: where to keep what was compared.
    """
    found = found or Validation()
    token = _CURRENT.set(found)
    try:
        yield found
    finally:
        _CURRENT.reset(token)


def being_compared() -> Validation | None:
    """What the `validating()` around this keeps; None outside of it."""
    return _CURRENT.get()
