"""Several meshes of the same devices as one, whose axes are the finest that any of them has.

A program may name its devices in two ways: as x=4,y=2 and as a=2,b=2,c=2, or by axes in another
order. Each axis is steps of some length from device to device, and axes that both can be written
with are found by cutting these steps. On jaxlib's bindings; in the child (`shardy`).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters.mesh.notes import change_shardings
from edgec.toolchain.ir.functions import inside

__all__ = ["make_one_mesh"]

_NAME = "edgec_one_mesh"


@dataclass(frozen=True)
class _Digit:
    """A part of an axis: `size` devices, `step` apart."""

    step: int
    size: int


_Axes = Mapping[str, tuple[_Digit, ...]]
"""The digits of each axis of a mesh, outermost first."""


def make_one_mesh(module: Any, functions: Sequence[Any]) -> None:
    """Rewrite a program of several meshes of the same devices for one, in place.

    A program that no one mesh has stays as it is.
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
    if len(set(map(str, meshes.values()))) < 2:
        return
    found = {name: _digits(mesh) for name, mesh in meshes.items()}
    first = next(iter(meshes.values()))
    devices = math.prod(sdy.MeshAxisAttr(axis).size for axis in first.axes)
    known = {name: axes for name, axes in found.items() if axes is not None}
    atoms = _atoms([d for axes in known.values() for ds in axes.values() for d in ds], devices)
    if len(known) < len(found) or atoms is None:
        return
    if any(_count(axes) != devices for axes in known.values()):
        return
    names = _named(atoms, next(iter(known.values())))
    text = ", ".join(f'"{names[atom]}"={atom.size}' for atom in atoms)
    made = ir.Module.parse(f"sdy.mesh @{_NAME} = <[{text}]>")
    made.body.operations[0].operation.clone(ip=ir.InsertionPoint.at_block_begin(module.body))
    axes = {
        mesh: {
            name: [(names[a], a.size) for digit in ds for a in _within(digit, atoms)]
            for name, ds in each.items()
        }
        for mesh, each in known.items()
    }
    for function in functions:
        _rename_by_hand(function, axes)
        change_shardings(function, lambda sharding: _renamed(sharding, axes))
    for op in list(module.body.operations):
        operation = op.operation
        is_mesh = operation.name == "sdy.mesh"
        if is_mesh and ir.StringAttr(operation.attributes["sym_name"]).value in known:
            operation.erase()


def _digits(mesh: Any) -> _Axes | None:
    """The axes of a mesh as steps from device to device; None where they are none."""
    from jaxlib.mlir.dialects import sdy

    axes = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
    sizes = [axis.size for axis in axes]
    ids = np.array(list(mesh.device_ids) or range(math.prod(sizes)), np.int64)
    if ids.size != math.prod(sizes) or ids[0] != 0:
        return None
    grid = ids.reshape(sizes)
    found: dict[str, tuple[_Digit, ...]] = {}
    total = np.zeros(sizes, np.int64)
    for place, axis in enumerate(axes):
        along = np.moveaxis(grid, place, 0).reshape(sizes[place], -1)[:, 0]
        digits = _of_line([int(number) for number in along])
        if digits is None:
            return None
        found[axis.name] = digits
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


def _count(axes: _Axes) -> int:
    return math.prod(digit.size for digits in axes.values() for digit in digits)


def _named(atoms: Sequence[_Digit], first: _Axes) -> dict[_Digit, str]:
    """Names: an axis' own where it is one part, else the axis' with a number."""
    found: dict[_Digit, str] = {}
    for name, digits in first.items():
        parts = [atom for digit in digits for atom in _within(digit, atoms)]
        for number, part in enumerate(parts):
            made = name if len(parts) == 1 else f"{name}_{number}"
            while made in found.values() or (made != name and made in first):
                made += "_"
            found[part] = made
    return found


def _within(digit: _Digit, atoms: Sequence[_Digit]) -> list[_Digit]:
    end = digit.step * digit.size
    return [a for a in atoms if digit.step <= a.step and a.step * a.size <= end]


_Named = Mapping[str, Mapping[str, Sequence[tuple[str, int]]]]
"""For each mesh and each of its axes the parts of the one mesh, and their sizes."""


def _renamed(sharding: Any, axes: _Named) -> Any:
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
        _NAME,
        dims,
        _references(sharding.replicated_axes, own),
        _references(sharding.unreduced_axes, own),
    )


def _references(axes: Any, own: Mapping[str, Sequence[tuple[str, int]]]) -> list[Any]:
    from jaxlib.mlir.dialects import sdy

    made = []
    for axis in map(sdy.AxisRefAttr, axes):
        parts = own[axis.name]
        if axis.sub_axis_info is None:
            made += [sdy.AxisRefAttr.get(name) for name, _ in parts]
            continue
        part = sdy.SubAxisInfoAttr(axis.sub_axis_info)
        begin, end, before = part.pre_size, part.pre_size * part.size, 1
        for name, size in parts:
            low, high = max(begin, before), min(end, before * size)
            if low < high:
                whole = low == before and high == before * size
                info = None if whole else sdy.SubAxisInfoAttr.get(low // before, high // low)
                made.append(sdy.AxisRefAttr.get(name, info))
            before *= size
    return made


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
        by_hand = [ir.StringAttr(manual[i]).value for i in range(len(manual))]
        parts = [ir.StringAttr.get(n) for name in by_hand for n, _ in axes[mesh][name]]
        operation.attributes["manual_axes"] = sdy.ManualAxesAttr.get(parts)
