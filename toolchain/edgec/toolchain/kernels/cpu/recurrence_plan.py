"""What a loop becomes: the kernel, what it reads and writes, and how much is worth one."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.kernels.cpu.source.recurrence import Recurrence
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["Plan", "Weights", "is_small"]

_CACHES_OF_WEIGHTS = 4
_PRODUCTS_A_LANE = 128 * 1024  # multiplications of one step, by the lanes of a vector


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """A matrix that the kernel reads in panels.

    Attributes:
        value: the matrix.
        turned: whether its rows are what is summed over, or its columns.
        starts, width: the panels' first columns, and how many each has.
    """

    value: Any
    turned: bool
    starts: tuple[int, ...]
    width: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A loop that becomes a kernel.

    Attributes:
        loop: the operation.
        recurrence: the kernel.
        inputs: what it reads, in the order of its bindings.
        outputs: which of the loop's results it writes, in the order of the bindings after these.
        counts: results that are whole numbers known when compiling.
    """

    loop: Any
    recurrence: Recurrence
    inputs: tuple[Any | Weights, ...]
    outputs: tuple[int, ...]
    counts: dict[int, int]


def is_small(weights: int, products: int, unit: VectorUnit) -> bool:
    """Whether a step with so many weights and multiplications is worth one core and no more."""
    room = _CACHES_OF_WEIGHTS * unit.cache.size
    return 4 * weights <= room and products <= _PRODUCTS_A_LANE * unit.lanes
