"""How much work a workgroup does: enough to be worth its start, and little enough to be shared."""

__all__ = ["MANY", "beside", "even", "workgroups"]

_FLOPS = 1e6
"""Some 4 to 5 microseconds at the rate of a core with 512 bits; a start takes 0.05 to 0.2."""
_BYTES = 160e3
"""As long, where memory is what a kernel waits for."""
_MOST = 64
MANY = 16
"""Workgroups that threads can share evenly, or nearly so."""


def workgroups(flops: float, size: int = 0, *, pace: float = 1.0) -> int:
    """How many workgroups a kernel is worth.

    Args:
        flops: multiplications and additions.
        size: bytes that are read once and for all.
        pace: the part of a core's rate at which it computes.
    """
    return max(1, min(_MOST, round(max(flops / (pace * _FLOPS), size / _BYTES))))


def even(things: int, wanted: int) -> int:
    """How many parts to cut things into, at least as many as wanted, so that parts are alike.

    Of 16 things for 6 workgroups four would get 3 and two get 2, and two threads 9 and 7.
    """
    each = max(1, things // wanted)
    return -(-things // each)


def beside(groups: int, wanted: int) -> int:
    """Into how many parts to cut what each of some groups does, for as many workgroups as wanted.

    Where groups are many, nearly as many are enough: the parts of one group read the same, and
    threads which take a part each of all groups read all of it twice.
    """
    return max(1, round(wanted / groups)) if groups >= MANY else -(-wanted // groups)
