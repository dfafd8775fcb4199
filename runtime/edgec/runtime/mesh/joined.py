"""Which routes the devices can go through without their hosts: what is in a module for that.

Such a module has, beside the parts, a function for each route with all its parts and the
collectives between them, which IREE's CUDA driver carries out by NCCL on the stream that computes;
and `JOIN`, which every device calls once, to find the others.
"""

from collections.abc import Iterable

from edgec.runtime.dtypes import DType
from edgec.runtime.mesh.nccl import REDUCTIONS
from edgec.runtime.mesh.plan import Collective, Plan, Route
from edgec.runtime.signature import Signature

__all__ = ["JOIN", "LEAVE", "NUMBER", "group_of", "joined_name", "kept_apart", "takes", "unspoken"]

JOIN = "edgec_join"
"""The function that takes NCCL's id, this device's rank in its group, and the group's size."""

LEAVE = "edgec_leave"
"""The function that closes what `JOIN` opened; all devices of a group call it at once."""

NUMBER = "device_number"
"""The input of a part, and of a route's function, that is the device's number."""

_KINDS = ("all_reduce", "all_gather", "reduce_scatter")
_TYPES = frozenset(
    (DType.I8, DType.U8, DType.I32, DType.U32, DType.I64, DType.U64, DType.F16, DType.F32)
)
"""What IREE's driver hands to NCCL as it is. It takes bf16 for f64 (nccl_channel.c of 3.13)."""


def joined_name(route: str) -> str:
    """The function of a route's whole way on one device."""
    return f"{route}_joined"


def kept_apart(plan: Plan) -> str:
    """Why the devices' hosts have to carry this plan's collectives; empty where they need not."""
    steps = [step for route in plan.routes.values() for step in route.collectives]
    if not steps:
        return "nothing is said between the devices"
    other = next((step for step in steps if step.kind not in _KINDS), None)
    if other is not None:
        return f"the compiler has no {other.kind} between parts of a mesh"
    for step in steps:
        if step.kind != "all_gather" and step.operation not in REDUCTIONS:
            return f"NCCL has no {step.kind} by {step.operation}"
        if step.axis or step.onto:
            return f"NCCL has no {step.kind} along an inner axis"
    if len({step.groups for step in steps}) > 1:
        return "its collectives are between different groups of devices"
    if any(group_of(steps[0], device) is None for device in range(plan.mesh.devices)):
        return "its collectives leave devices out"
    return ""


def unspoken(types: Iterable[DType]) -> str:
    """Why not, for the element types that are said; empty where all can be."""
    found = next((each for each in types if each not in _TYPES), None)
    return "" if found is None else f"IREE's driver does not hand {found.value} to NCCL"


def takes(route: Route, joined: Signature) -> tuple[tuple[int, ...], bool]:
    """Which of a route's inputs its joined function takes, and whether the device's number."""
    places = {spec.name: index for index, spec in enumerate(route.signature.inputs)}
    names = [spec.name for spec in joined.inputs]
    numbered = names[-1:] == [NUMBER]
    return tuple(places[name] for name in names[: len(names) - numbered]), numbered


def group_of(step: Collective, device: int) -> tuple[int, ...] | None:
    """The devices that one speaks to in a step, itself among them; None where it does not."""
    return next((group for group in step.groups if device in group), None)
