"""Refuses arrays that this machine's memory cannot hold, before anything is allocated."""

import os
from collections.abc import Sequence

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError

__all__ = ["refuse_too_big"]

_ABSURD = 1 << 60


def refuse_too_big(name: str, shape: Sequence[int], dtype: DType) -> None:
    """Check the size of an array that is asked for.

    Raises:
        InputError: it is larger than the machine's memory.
    """
    size = dtype.bits // 8
    for extent in shape:
        size *= extent
    memory = _memory()
    if size > memory:
        needed = f"{size >> 30:,}" if size < _ABSURD else f"more than {_ABSURD >> 30:,}"
        raise InputError(
            f"{name} would take {needed} GiB, and this machine has "
            f"{memory / 2**30:,.1f} GiB of memory",
            hint="check the shape",
        )


def _memory() -> int:
    """Bytes of physical memory; where that cannot be known, what 64 bits of address can count."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 1 << 47
