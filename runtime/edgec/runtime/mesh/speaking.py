"""Which channel the devices of a mesh speak through, and why it is not the fastest."""

from collections.abc import Mapping, Sequence

from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.errors import EdgecError
from edgec.runtime.loaded import LoadedModule
from edgec.runtime.mesh.channel import Channel, HostChannel
from edgec.runtime.mesh.nccl import Nccl
from edgec.runtime.mesh.nccl_channel import NcclChannel, buffers_of, refused
from edgec.runtime.mesh.plan import Plan
from edgec.runtime.mesh.sizes import Size, sizes_of

__all__ = ["channel_for"]


def channel_for(plan: Plan, modules: Sequence[LoadedModule]) -> tuple[Channel, str]:
    """The channel, and a word where collectives leave the devices' memory for the host's.

    GPUs of NVIDIA speak by NCCL, where it is here and knows what they say; all others through the
    host's memory, which is their own on CPUs.
    """
    devices = [module.device for module in modules]
    host = HostChannel(len(devices))
    steps = [step for route in plan.routes.values() for step in route.collectives]
    if not steps or all(device.maps_memory for device in devices):
        return host, ""
    contexts = [getattr(device.backend, "context", None) for device in devices]
    known: list[CudaContext] = [each for each in contexts if each is not None]
    signatures = modules[0].signatures
    sizes = {n: sizes_of(route, plan.mesh, signatures) for n, route in plan.routes.items()}
    reason = _refused(plan, sizes)
    if len(known) != len(devices):
        reason = "only GPUs of NVIDIA speak to each other without it"
    elif len({each.ordinal for each in known}) != len(known):
        reason = "NCCL wants each GPU once"
    if not reason:
        try:
            buffers = {name: buffers_of(route, sizes[name]) for name, route in plan.routes.items()}
            return NcclChannel(devices, known, buffers, steps, Nccl()), ""
        except EdgecError as error:
            reason = error.what + (f" (next: {error.hint})" if error.hint else "")
    return host, f"what the devices say to each other goes through the host's memory: {reason}"


def _refused(plan: Plan, sizes: Mapping[str, Mapping[int, Size]]) -> str:
    """What NCCL does not take, with the user's line; empty if nothing."""
    for name, route in plan.routes.items():
        for step in route.collectives:
            reason = refused(step, sizes[name][step.input][1])
            if reason:
                return f"{reason} at {step.where}" if step.where else reason
    return ""
