"""What devices say to each other, between arrays in the memory of one process.

Each function takes the array of every device and gives the array of every device. Reductions go
through a group's devices in its own order, so that every run gives the same bits; 16-bit floats
are summed in f32.
"""

from collections.abc import Callable, Sequence

import numpy as np

from edgec.runtime.errors import ProgramError
from edgec.runtime.mesh.plan import Collective

__all__ = ["OPERATIONS", "collect"]

OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""What a reduction can be, as StableHLO calls it."""


def collect(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Carry out one collective: the array of every device, before and after.

    Raises:
        ProgramError: the step names devices or an operation that there are not.
    """
    if step.kind == "collective_permute":
        return _permuted(step, arrays)
    made: dict[int, np.ndarray] = {}
    for group in step.groups:
        given = [arrays[device] for device in group]
        for device, array in zip(group, _WITHIN[step.kind](step, given), strict=True):
            made[device] = array
    if len(made) != len(arrays):
        raise ProgramError(f"{step.kind} leaves devices out: {step.groups}")
    return [made[device] for device in range(len(arrays))]


def _permuted(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of pairs of from and to; whom nobody gives something has zeros."""
    made = [np.zeros_like(array) for array in arrays]
    for source, target in step.groups:
        made[target] = arrays[source]
    return made


def _reduced(step: Collective, arrays: Sequence[np.ndarray]) -> np.ndarray:
    operation = OPERATIONS.get(step.operation)
    if operation is None:
        raise ProgramError(f"{step.kind} by {step.operation!r}, which is no operation of edgec's")
    dtype = arrays[0].dtype
    wide = dtype.itemsize == 2 and dtype.kind not in "iub"
    total = arrays[0].astype(np.float32) if wide else np.array(arrays[0])
    for array in arrays[1:]:
        operation(total, array, out=total)
    return total.astype(dtype) if wide else total


def _all_reduce(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    total = _reduced(step, arrays)
    return [total] * len(arrays)


def _all_gather(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    whole = np.concatenate(arrays, axis=step.axis)
    return [whole] * len(arrays)


def _reduce_scatter(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return _pieces(_reduced(step, arrays), step.axis, len(arrays))


def _all_to_all(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    pieces = [_pieces(array, step.axis, len(arrays)) for array in arrays]
    return [
        np.concatenate([of_one[number] for of_one in pieces], axis=step.onto)
        for number in range(len(arrays))
    ]


def _broadcast(step: Collective, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [arrays[0]] * len(arrays)


def _pieces(array: np.ndarray, axis: int, count: int) -> list[np.ndarray]:
    return [np.ascontiguousarray(piece) for piece in np.split(array, count, axis=axis)]


_WITHIN: dict[str, Callable[[Collective, Sequence[np.ndarray]], list[np.ndarray]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "collective_broadcast": _broadcast,
}
