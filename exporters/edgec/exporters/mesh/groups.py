"""Who speaks to whom in a collective, as numbers; on jaxlib's bindings.

From 0.11 on, jaxlib names a collective's groups by axes of a mesh of the program. The compiler, and
all that looks at groups here, reads the devices' numbers.
"""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.toolchain.ir.functions import inside

__all__ = ["number_groups", "numbers_of"]

_GROUPS = "replica_groups"
_NAMED = re.compile(r"replica_group_mesh_axes<mesh = (?P<mesh>.*), axes = \[(?P<axes>.*)\]>")
_REFERENCE = re.compile(r'"([^"]+)"(?:, sub_axis_info = \((\d+)\)(\d+))?')
_SYMBOL = re.compile(r'@"?([^"]+?)"?$')
_AXES = re.compile(r'"([^"]+)"(?:=|, size = )(\d+)')
_IDS = re.compile(r"device_ids\s*=\s*(?:dense<)?\[?([\d, ]+)")


def number_groups(module: Any) -> None:
    """Write every collective's groups as numbers of devices, in place."""
    from jaxlib.mlir import ir

    tops = [op.operation.attributes for op in module.body.operations]
    meshes = {
        ir.StringAttr(top["sym_name"]).value: str(top["mesh"])
        for top in tops
        if "mesh" in top and "sym_name" in top
    }
    for op in inside(module.operation):
        named = _NAMED.search(str(op.attributes[_GROUPS])) if _GROUPS in op.attributes else None
        if named is None:
            continue
        symbol = _SYMBOL.match(named["mesh"])
        mesh = named["mesh"] if symbol is None else meshes[symbol[1]]
        numbers = numbers_of(mesh, named["axes"])
        op.attributes[_GROUPS] = ir.DenseElementsAttr.get(np.array(numbers, np.int64))


def numbers_of(mesh: str, axes: str) -> list[list[int]]:
    """The groups of devices that axes name.

    Args:
        mesh: as Shardy or StableHLO writes it, with the axes' names and sizes and perhaps the
            devices' order (`device_ids`), else row by row.
        axes: the names between brackets, the slowest first; of a part of an axis with how many
            parts are before it and how many it has, as `(2)4`.
    """
    sizes = {name: int(size) for name, size in _AXES.findall(mesh)}
    wanted = [
        (name, int(before or 1), int(size or sizes[name]))
        for name, before, size in _REFERENCE.findall(axes)
    ]
    pieces = [
        (name, before, after)
        for name, size in sizes.items()
        for before, after in itertools.pairwise(_cuts(size, [w for w in wanted if w[0] == name]))
    ]
    order = _IDS.search(mesh)
    count = int(np.prod(list(sizes.values())))
    ids = range(count) if order is None else [int(each) for each in order[1].split(",")]
    grid = np.array(ids).reshape([after // before for _, before, after in pieces])
    inner = [
        place
        for name, before, size in wanted
        for place, (axis, start, end) in enumerate(pieces)
        if axis == name and before <= start and end <= before * size
    ]
    outer = [place for place in range(len(pieces)) if place not in inner]
    members = int(np.prod([size for _, _, size in wanted]))
    return [list(map(int, row)) for row in grid.transpose(outer + inner).reshape(-1, members)]


def _cuts(size: int, wanted: Sequence[tuple[str, int, int]]) -> list[int]:
    """Where an axis is cut: how many parts come before each piece of it, and in the end all."""
    found = {1, size}
    for _, before, count in wanted:
        found |= {before, before * count}
    return sorted(found)
