"""A whole array to the shards of a mesh's devices, and shards to the whole."""

import math
from collections.abc import Sequence

import numpy as np

from edgec.runtime.errors import InputError
from edgec.runtime.mesh.plan import Mesh, Sharding

__all__ = ["cut", "is_whole", "join"]


def is_whole(sharding: Sharding) -> bool:
    """Whether every device has all of the array."""
    return not any(sharding)


def cut(array: np.ndarray, sharding: Sharding, mesh: Mesh) -> list[np.ndarray]:
    """The shard of each device, as views of the array.

    Raises:
        InputError: an axis cannot be cut into so many equal parts.
    """
    return [array[_part(array.shape, sharding, mesh, d)] for d in range(mesh.devices)]


def join(shards: Sequence[np.ndarray], sharding: Sharding, mesh: Mesh) -> np.ndarray:
    """The whole array of every device's shard; of devices that have the same, the first one's."""
    if is_whole(sharding):
        return shards[0]
    shape = tuple(
        size * math.prod(mesh.axes[name] for name in names)
        for size, names in zip(shards[0].shape, sharding, strict=True)
    )
    whole = np.empty(shape, shards[0].dtype)
    for device in reversed(range(mesh.devices)):
        whole[_part(shape, sharding, mesh, device)] = shards[device]
    return whole


def _part(shape: Sequence[int], sharding: Sharding, mesh: Mesh, device: int) -> tuple[slice, ...]:
    place = mesh.place(device)
    parts = []
    for size, names in zip(shape, sharding, strict=True):
        number, count = 0, 1
        for name in names:
            number = number * mesh.axes[name] + place[name]
            count *= mesh.axes[name]
        if size % count:
            raise InputError(
                f"an axis of {size} cannot be cut into {count} equal parts "
                f"({' and '.join(names)} of the mesh {mesh})",
                hint="choose a size that the mesh divides, or leave that axis whole",
            )
        each = size // count
        parts.append(slice(number * each, (number + 1) * each))
    return tuple(parts)
