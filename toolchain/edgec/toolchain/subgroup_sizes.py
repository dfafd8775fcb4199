"""How many lanes a subgroup has that the compiler's kernels for Vulkan count on, in the module.

iree-compile 3.13 writes kernels whose subgroups have as many lanes as the target's device has, and
does not say so: a device with others would run them and give wrong sums. A module has a place for
that number, which makes a runtime ask the driver for such subgroups or refuse the module.
"""

import struct

from edgec.runtime.errors import CompileError
from edgec.runtime.flatbuffer import Table
from edgec.runtime.spirv import has_subgroups
from edgec.toolchain.vulkan_executables import codes, opened

__all__ = ["saying"]

_PIPELINES = 0
_MODULE, _NAME, _SUBGROUP, _DEBUG = 0, 1, 3, 4
"""Fields of a pipeline: which SPIR-V it runs, its name, lanes of subgroups, where its source is."""
_OWN = "edgec_"
"""How the names of kernels begin that edgec, or its user, wrote."""
_SLOTS = 4
"""Bytes of a table's list of fields before those."""


def saying(data: bytes, lanes: int) -> bytes:
    """An executable of the same length whose pipelines with subgroups ask for so many lanes.

    The number takes the place of where the kernel's source is, which nothing reads at run time;
    pipelines that share the list of their fields with such a one ask for the same. Kernels that
    are not the compiler's mean what they say: edgec's add up otherwise where subgroups are others.

    Args:
        data: what the compiler writes for Vulkan.
        lanes: of a subgroup.

    Raises:
        CompileError: it is of another version, or a pipeline has no place for the number.
        ModuleError: it is damaged.
    """
    changed = bytearray(data)
    table = opened(data)
    asking = [has_subgroups(code) for code in codes(data, table)]
    pipelines = list(table.tables(_PIPELINES))
    places: dict[int, int] = {}
    for each in pipelines:
        if not _asks(each, asking) or each.u32(_SUBGROUP) or each.fields in places:
            continue
        places[each.fields] = _place(data, each)
        at = each.fields + _SLOTS + 2 * _SUBGROUP
        struct.pack_into("<2H", changed, at, places[each.fields], 0)
    for each in pipelines:
        if each.fields in places:
            struct.pack_into("<I", changed, each.position + places[each.fields], lanes)
    return bytes(changed)


def _asks(pipeline: Table, asking: list[bool]) -> bool:
    module = pipeline.u32(_MODULE)
    is_own = pipeline.text(_NAME).startswith(_OWN)
    return not is_own and module < len(asking) and asking[module]


def _place(data: bytes, pipeline: Table) -> int:
    """Where in a pipeline its source is said."""
    slot = _SLOTS + 2 * _DEBUG
    (size,) = struct.unpack_from("<H", data, pipeline.fields)
    place = struct.unpack_from("<H", data, pipeline.fields + slot)[0] if size >= slot + 2 else 0
    if not place:
        raise CompileError("the compiler's executable for Vulkan cannot say how wide subgroups are")
    return int(place)
