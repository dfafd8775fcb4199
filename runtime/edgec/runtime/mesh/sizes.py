"""How many bytes, of which element type, each value of a route takes on one device."""

import math
from collections.abc import Mapping

from edgec.runtime.dtypes import DType
from edgec.runtime.mesh.plan import Call, Collective, Mesh, Route
from edgec.runtime.signature import Signature, TensorSpec

__all__ = ["Size", "sizes_of"]

Size = tuple[int, DType]
"""Bytes, and the type of an element."""


def sizes_of(route: Route, mesh: Mesh, signatures: Mapping[str, Signature]) -> dict[int, Size]:
    """The size of each value by its number.

    Args:
        route: what each device does.
        mesh: the devices.
        signatures: of the parts, by name.
    """
    found: dict[int, Size] = {}
    for number, (spec, cut) in enumerate(zip(route.signature.inputs, route.inputs, strict=True)):
        parts = math.prod(mesh.axes[name] for names in cut for name in names)
        found[number] = (_bytes(spec) // parts, spec.dtype)
    for step in route.steps:
        if isinstance(step, Call):
            specs = signatures[step.function].outputs
            for number, spec in zip(step.outputs, specs, strict=True):
                found[number] = (_bytes(spec), spec.dtype)
        else:
            found[step.output] = _after(step, *found[step.input])
    return found


def _bytes(spec: TensorSpec) -> int:
    return math.prod(int(str(size)) for size in spec.shape) * spec.dtype.bits // 8


def _after(step: Collective, size: int, dtype: DType) -> Size:
    together = len(step.groups[0]) if step.groups else 1
    if step.kind == "all_gather":
        return size * together, dtype
    if step.kind == "reduce_scatter":
        return size // together, dtype
    return size, dtype
