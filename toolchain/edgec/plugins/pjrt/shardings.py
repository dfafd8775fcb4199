"""How an array is cut, as XLA writes it: a serialised `xla.OpSharding`.

Fields of `xla/xla_data.proto`. JAX asks an executable for these where the program does not say how
its arguments and results are cut.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from edgec.runtime.mesh.plan import Mesh, Sharding

__all__ = ["written_sharding"]

_TYPE, _TILES, _DEVICES, _LAST = 1, 3, 4, 8
_REPLICATED, _OTHER, _UNREDUCED = 0, 3, 6


def written_sharding(
    cut: Sharding, mesh: Mesh, unsummed: Sequence[str] = (), placed: Sequence[int] = ()
) -> bytes:
    """For an array of as many axes as `cut` has: whole everywhere, or in tiles.

    Along the axes of the mesh that are `unsummed` devices hold what is to be summed; along what is
    left after these and those that are cut, each has the same. `placed` says which device has what
    the mesh's first, second, ... one is said to have, where that is not itself.
    """
    axes = list(mesh.axes)
    named = [axis for names in cut for axis in names]
    same = [axis for axis in axes if axis not in named and axis not in unsummed]
    sizes = [_together(names, mesh) for names in cut]
    last = {_UNREDUCED: _together(unsummed, mesh), _REPLICATED: _together(same, mesh)}
    last = {kind: size for kind, size in last.items() if size > 1}
    if all(size == 1 for size in sizes) and _UNREDUCED not in last:
        return bytes(_number(_TYPE, _REPLICATED))
    order = [axes.index(axis) for axis in (*named, *unsummed, *same)]
    grid = np.array(placed or range(mesh.devices)).reshape(tuple(mesh.axes.values()))
    devices = grid.transpose(order).reshape(-1).tolist()
    tiles = [*sizes, *last.values()]
    written = [*_number(_TYPE, _OTHER), *_list(_TILES, tiles), *_list(_DEVICES, devices)]
    return bytes([*written, *(_list(_LAST, last) if last else ())])


def _together(names: Iterable[str], mesh: Mesh) -> int:
    return int(np.prod([mesh.axes[name] for name in names], dtype=int))


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
