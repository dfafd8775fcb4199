"""How an array is cut, as XLA writes it: a serialised `xla.OpSharding`.

Fields of `xla/xla_data.proto`. JAX asks an executable for these where the program does not say how
its arguments and results are cut.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from edgec.runtime.mesh.plan import Mesh, Sharding

__all__ = ["written_sharding"]

_TYPE, _TILES, _DEVICES, _REPLICATE_LAST = 1, 3, 4, 6
_REPLICATED, _OTHER = 0, 3


def written_sharding(cut: Sharding, mesh: Mesh) -> bytes:
    """For an array of as many axes as `cut` has: whole everywhere, or in tiles."""
    sizes = [int(np.prod([mesh.axes[name] for name in names], dtype=int)) for names in cut]
    if all(size == 1 for size in sizes):
        return bytes(_number(_TYPE, _REPLICATED))
    axes = list(mesh.axes)
    named = [axis for names in cut for axis in names]
    order = [axes.index(axis) for axis in (*named, *(a for a in axes if a not in named))]
    grid = np.arange(mesh.devices).reshape(tuple(mesh.axes.values()))
    devices = grid.transpose(order).reshape(-1).tolist()
    rest = mesh.devices // int(np.prod(sizes))
    tiles = [*sizes, rest] if rest > 1 else sizes
    written = [*_number(_TYPE, _OTHER), *_list(_TILES, tiles), *_list(_DEVICES, devices)]
    return bytes([*written, *(_number(_REPLICATE_LAST, 1) if rest > 1 else ())])


def _number(field: int, value: int) -> Iterator[int]:
    yield from _varint(field << 3)
    yield from _varint(value)


def _list(field: int, values: Iterable[int]) -> Iterator[int]:
    packed = [byte for value in values for byte in _varint(value)]
    yield from _varint(field << 3 | 2)
    yield from _varint(len(packed))
    yield from packed


def _varint(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
