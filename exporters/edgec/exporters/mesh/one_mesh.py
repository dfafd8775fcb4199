"""Several meshes of the same devices as one, whose axes are the finest that any of them has.

A program may name its devices in two ways: as x=4,y=2 and as a=2,b=2,c=2, or by axes in another
order. Each axis is steps of some length from device to device, and axes that both can be written
with are found by cutting these steps. A mesh that no such axes give (its devices reversed, or in
any order; 2 x 3 beside 3 x 2) is written as if its devices lay as the one mesh has them: within a
program nobody sees where a value lies. Who gives it arguments and takes its results does, and is
told. On jaxlib's bindings; in the child (`shardy`).
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.mesh.notes import change_shardings
from edgec.toolchain.ir.functions import inside

__all__ = ["make_fine", "make_one_mesh"]

_NAME = "edgec_one_mesh"


@dataclass(frozen=True)
class _Digit:
    """A part of an axis: `size` devices, `step` apart."""

    step: int
    size: int


_Axes = Mapping[str, tuple[_Digit, ...]]
"""The digits of each axis of a mesh, outermost first."""
_Named = Mapping[str, Mapping[str, Sequence[tuple[str, int]]]]
"""For each mesh and each of its axes the parts of the one mesh, and their sizes."""


def make_one_mesh(module: Any, functions: Sequence[Any]) -> dict[str, list[int]]:
    """Rewrite a program of several meshes of the same devices for one, in place.

    A program of meshes that have not the same devices stays as it is.

    Returns:
        For each mesh that is written as if its devices lay otherwise, by its name, which device is
        meant by the first, the second, ... of the one mesh.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    meshes: dict[str, Any] = {}
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            name = ir.StringAttr(op.operation.attributes["sym_name"]).value
            mesh = sdy.MeshAttr(op.operation.attributes["mesh"])
            if len(list(mesh.axes)):
                meshes[name] = mesh
    grids = {name: _grid(mesh) for name, mesh in meshes.items()}
    devices = max((grid.size for grid in grids.values()), default=0)
    own = np.arange(devices)
    if any(not np.array_equal(np.sort(grid, None), own) for grid in grids.values()):
        return {}
    in_order = all(np.array_equal(grid.reshape(-1), own) for grid in grids.values())
    if in_order and len(set(map(str, meshes.values()))) < 2:
        return {}
    known, others = _fitting({name: _digits(meshes[name], grid) for name, grid in grids.items()})
    first = next(iter(known.values()), None) or _of_sizes(_sizes(meshes[others[0]]))
    atoms = _atoms(_all_digits([*known.values(), first]), devices) or ()
    parts = {name: _cut(axes, atoms) for name, axes in known.items()}
    own_parts = _cut(first, atoms)
    matched = {name: _matched(_sizes(meshes[name]), own_parts) for name in others}
    if None in matched.values():
        atoms = tuple(prime for atom in atoms for prime in _primes(atom))
        parts = {name: _cut(axes, atoms) for name, axes in known.items()}
        own_parts = _cut(first, atoms)
        matched = {name: _matched(_sizes(meshes[name]), own_parts) for name in others}
    parts |= {name: found for name, found in matched.items() if found is not None}
    names = _named(own_parts)
    axes = {
        mesh: {axis: [(names[a], a.size) for a in digits] for axis, digits in each.items()}
        for mesh, each in parts.items()
    }
    _rewrite(module, functions, axes, [(names[atom], atom.size) for atom in atoms])
    return {name: _meant(parts[name], grids[name]) for name in others}


def make_fine(
    module: Any, functions: Sequence[Any], mesh: str, axes: Mapping[str, int]
) -> dict[str, list[tuple[str, int]]]:
    """Rewrite a program of one mesh for one whose axes have prime sizes, in place.

    Along these no array is cut along a part of an axis only: what Shardy writes for such
    (`convert-global-to-local` of jaxlib 0.10) gives devices the parts of others.

    Returns:
        The parts of each axis, outermost first, and their sizes.
    """
    own = _of_sizes(axes)
    if all(len(_primes(digit)) < 2 for digit in _all_digits([own])):
        return {name: [(name, size)] for name, size in axes.items()}
    parts = {name: [p for digit in digits for p in _primes(digit)] for name, digits in own.items()}
    names = _named(parts)
    found = {name: [(names[part], part.size) for part in each] for name, each in parts.items()}
    _rewrite(module, functions, {mesh: found}, [part for each in found.values() for part in each])
    return found


def _rewrite(
    module: Any, functions: Sequence[Any], axes: _Named, parts: Sequence[tuple[str, int]]
) -> None:
    """Write a program of these meshes for one of these parts."""
    from jaxlib.mlir import ir

    taken = [
        ir.StringAttr(op.operation.attributes["sym_name"]).value
        for op in module.body.operations
        if op.operation.name == "sdy.mesh"
    ]
    name = next(n for n in (_NAME, f"{_NAME}_finer") if n not in taken)
    text = ", ".join(f'"{part}"={size}' for part, size in parts)
    made = ir.Module.parse(f"sdy.mesh @{name} = <[{text}]>")
    made.body.operations[0].operation.clone(ip=ir.InsertionPoint.at_block_begin(module.body))
    for function in functions:
        _rename_by_hand(function, axes)
        _rename_spoken(function, axes)
        change_shardings(function, lambda sharding: _renamed(sharding, axes, name))
    for op in list(module.body.operations):
        operation = op.operation
        is_mesh = operation.name == "sdy.mesh"
        if is_mesh and ir.StringAttr(operation.attributes["sym_name"]).value in axes:
            operation.erase()


def _grid(mesh: Any) -> np.ndarray:
    """The mesh's devices, an axis of the array for each of the mesh's."""
    sizes = list(_sizes(mesh).values())
    ids = np.array(list(mesh.device_ids) or range(math.prod(sizes)), np.int64)
    return ids.reshape(sizes) if ids.size == math.prod(sizes) else ids


def _sizes(mesh: Any) -> dict[str, int]:
    from jaxlib.mlir.dialects import sdy

    return {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}


def _fitting(found: Mapping[str, _Axes | None]) -> tuple[dict[str, _Axes], list[str]]:
    """The meshes whose axes have common parts, and the names of the others."""
    known: dict[str, _Axes] = {}
    for name, axes in found.items():
        if axes is None:
            continue
        devices = math.prod(digit.size for digit in _all_digits([axes]))
        if _atoms(_all_digits([*known.values(), axes]), devices) is not None:
            known[name] = axes
    return known, [name for name in found if name not in known]


def _all_digits(meshes: Sequence[_Axes]) -> list[_Digit]:
    return [digit for axes in meshes for digits in axes.values() for digit in digits]


def _of_sizes(sizes: Mapping[str, int]) -> _Axes:
    """The axes of a mesh of such sizes whose devices lie in their own order."""
    found: dict[str, tuple[_Digit, ...]] = {}
    step = math.prod(sizes.values())
    for name, size in sizes.items():
        step //= size
        found[name] = (_Digit(step, size),) if size > 1 else ()
    return found


def _matched(
    sizes: Mapping[str, int], own: Mapping[str, Sequence[_Digit]]
) -> dict[str, tuple[_Digit, ...]] | None:
    """Parts of the one mesh for axes of such sizes, best those of an axis of that name.

    None where the parts are too coarse.
    """
    free = [part for parts in own.values() for part in parts]
    found: dict[str, tuple[_Digit, ...]] = {}
    for name, size in sizes.items():
        if math.prod(part.size for part in own.get(name, ())) == size and name in own:
            found[name] = tuple(own[name])
            free = [part for part in free if part not in own[name]]
    for name, size in sizes.items():
        if name in found:
            continue
        some = itertools.chain.from_iterable(
            itertools.combinations(free, count) for count in range(len(free) + 1)
        )
        parts = next((p for p in some if math.prod(part.size for part in p) == size), None)
        if parts is None:
            return None
        found[name] = parts
        free = [part for part in free if part not in parts]
    return found


def _primes(digit: _Digit) -> list[_Digit]:
    """A part as parts whose sizes are primes, outermost first."""
    found, step, left = [], digit.step, digit.size
    while left > 1:
        size = next(n for n in range(2, left + 1) if left % n == 0)
        found.append(_Digit(step, size))
        step, left = step * size, left // size
    return found[::-1]


def _meant(parts: Mapping[str, Sequence[_Digit]], grid: np.ndarray) -> list[int]:
    """Which device of a mesh is meant by each of the one mesh."""
    place = np.zeros(grid.shape, np.int64)
    for axis, digits in enumerate(parts.values()):
        along = np.zeros(1, np.int64)
        for digit in digits:
            along = (along[:, None] + np.arange(digit.size) * digit.step).reshape(-1)
        place += along.reshape([-1 if i == axis else 1 for i in range(grid.ndim)])
    meant = np.empty(grid.size, np.int64)
    meant[place.reshape(-1)] = grid.reshape(-1)
    return [int(device) for device in meant]


def _digits(mesh: Any, grid: np.ndarray) -> _Axes | None:
    """The axes of a mesh as steps from device to device; None where they are none."""
    sizes = _sizes(mesh)
    if grid.reshape(-1)[0] != 0:
        return None
    found: dict[str, tuple[_Digit, ...]] = {}
    total = np.zeros(grid.shape, np.int64)
    for place, (name, size) in enumerate(sizes.items()):
        along = np.moveaxis(grid, place, 0).reshape(size, -1)[:, 0]
        digits = _of_line([int(number) for number in along])
        if digits is None:
            return None
        found[name] = digits
        total += along.reshape([-1 if i == place else 1 for i in range(len(sizes))])
    return found if np.array_equal(total, grid) else None


def _of_line(line: Sequence[int]) -> tuple[_Digit, ...] | None:
    """Device numbers along an axis as digits, outermost first; None where they are none."""
    digits: list[_Digit] = []
    done = 1
    while done < len(line):
        step, size = line[done], 1
        while size * done < len(line) and line[size * done] == size * step:
            size += 1
        digits.append(_Digit(step, size))
        if step <= 0 or len(line) % (done * size):
            return None
        done *= size
    places = [0]
    for digit in digits:
        places = [digit.step * i + place for i in range(digit.size) for place in places]
    return tuple(reversed(digits)) if places == list(line) else None


def _atoms(digits: Sequence[_Digit], devices: int) -> tuple[_Digit, ...] | None:
    """The finest parts of all, outermost first; None where they do not fit into each other."""
    edges = {1, devices}
    for digit in digits:
        edges |= {digit.step, digit.step * digit.size}
    ordered = sorted(edges)
    pairs = list(itertools.pairwise(ordered))
    if any(high % low for low, high in pairs):
        return None
    return tuple(_Digit(low, high // low) for low, high in reversed(pairs))


def _cut(axes: _Axes, atoms: Sequence[_Digit]) -> dict[str, tuple[_Digit, ...]]:
    """Each axis' parts, outermost first."""
    return {
        name: tuple(atom for digit in digits for atom in _within(digit, atoms))
        for name, digits in axes.items()
    }


def _named(own: Mapping[str, Sequence[_Digit]]) -> dict[_Digit, str]:
    """Names: an axis' own where it is one part, else the axis' with a number."""
    found: dict[_Digit, str] = {}
    for name, parts in own.items():
        for number, part in enumerate(parts):
            made = name if len(parts) == 1 else f"{name}_{number}"
            while made in found.values() or (made != name and made in own):
                made += "_"
            found[part] = made
    return found


def _within(digit: _Digit, atoms: Sequence[_Digit]) -> list[_Digit]:
    end = digit.step * digit.size
    return [a for a in atoms if digit.step <= a.step and a.step * a.size <= end]


def _renamed(sharding: Any, axes: _Named, name: str) -> Any:
    """The same sharding by the axes of the one mesh."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    mesh = str(ir.FlatSymbolRefAttr(sharding.mesh_or_ref).value)
    if mesh not in axes:
        return sharding
    own = axes[mesh]
    dims = []
    for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings):
        dims.append(
            sdy.DimensionShardingAttr.get(
                _references(dim.axes, own), is_closed=dim.is_closed, priority=dim.priority
            )
        )
    return sdy.TensorShardingAttr.get(
        name,
        dims,
        _references(sharding.replicated_axes, own),
        _references(sharding.unreduced_axes, own),
    )


def _references(axes: Any, own: Mapping[str, Sequence[tuple[str, int]]]) -> list[Any]:
    from jaxlib.mlir.dialects import sdy

    made = []
    for axis in map(sdy.AxisRefAttr, axes):
        part = axis.sub_axis_info and sdy.SubAxisInfoAttr(axis.sub_axis_info)
        within = (part.pre_size, part.size) if part else None
        for name, info in _parts_of(own[axis.name], within):
            made.append(sdy.AxisRefAttr.get(name, info and sdy.SubAxisInfoAttr.get(*info)))
    return made


def _parts_of(
    parts: Sequence[tuple[str, int]], within: tuple[int, int] | None
) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """The parts of an axis, or of a part of it: whole (None), or what is before and the size.

    Args:
        parts: of the axis, with their sizes, outermost first.
        within: the product of the sizes before what is meant, and its own.
    """
    every = math.prod(size for _, size in parts)
    begin, end = (within[0], within[0] * within[1]) if within else (1, every)
    before = 1
    for name, size in parts:
        low, high = max(begin, before), min(end, before * size)
        if low < high:
            is_whole = low == before and high == before * size
            yield name, None if is_whole else (low // before, high // low)
        before *= size


_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


def _rename_spoken(function: Any, axes: _Named) -> None:
    """The axes along which devices speak to each other already, as JAX writes sums of parts."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    for operation in inside(function):
        if not operation.name.startswith("sdy.") or "out_sharding" not in operation.attributes:
            continue
        sharding = sdy.TensorShardingAttr(operation.attributes["out_sharding"])
        own = axes.get(str(ir.FlatSymbolRefAttr(sharding.mesh_or_ref).value))
        if own is None:
            continue

        def renamed(match: re.Match[str], own: Any = own) -> str:
            within = (int(match[2]), int(match[3])) if match[2] else None
            return ", ".join(
                f'"{name}":({info[0]}){info[1]}' if info else f'"{name}"'
                for name, info in _parts_of(own[match[1]], within)
            )

        for name in list(operation.attributes):
            name = name if isinstance(name, str) else name.name
            text = str(operation.attributes[name])
            if text.startswith("#sdy<"):
                operation.attributes[name] = ir.Attribute.parse(_AXIS.sub(renamed, text))


def _rename_by_hand(function: Any, axes: _Named) -> None:
    """The axes along which devices work by hand (`shard_map`)."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    for operation in inside(function):
        if operation.name != "sdy.manual_computation":
            continue
        named = [
            sdy.TensorShardingAttr(sharding)
            for name in ("in_shardings", "out_shardings")
            for sharding in sdy.TensorShardingPerValueAttr(operation.attributes[name]).shardings
        ]
        meshes = [str(ir.FlatSymbolRefAttr(each.mesh_or_ref).value) for each in named]
        mesh = next((each for each in meshes if each in axes), None)
        if mesh is None:
            continue
        manual = sdy.ManualAxesAttr(operation.attributes["manual_axes"])
        by_hand = [str(manual[i]) for i in range(len(manual))]
        parts = [ir.StringAttr.get(n) for name in by_hand for n, _ in axes[mesh][name]]
        operation.attributes["manual_axes"] = sdy.ManualAxesAttr.get(parts)
