"""Devices of a mesh whose modules speak by themselves: NCCL found, and each one told of the others.

A module with joined routes has collectives in it, which IREE's CUDA driver enqueues on the stream
that computes. So a call goes through without its hosts; one thread a device starts it.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from edgec.runtime.errors import EdgecError
from edgec.runtime.iree_drivers import keep_memory
from edgec.runtime.loaded import LoadedModule
from edgec.runtime.mesh.joined import group_of, joined_name
from edgec.runtime.mesh.nccl import Nccl
from edgec.runtime.mesh.nccl_name import offer
from edgec.runtime.mesh.plan import Plan
from edgec.runtime.module import Module

__all__ = ["introduce", "meet"]

_DIRECT = "NCCL_P2P_DIRECT_DISABLE"
"""Of NCCL: not to reach into another GPU's arrays, which are in pools that only their GPU sees."""


def introduce(module: Module, plan: Plan, devices: Sequence[str]) -> tuple[Nccl | None, str]:
    """Have NCCL ready for the driver, before any of its devices is opened.

    Args:
        module: with the plan's parts.
        plan: what the devices do.
        devices: URIs of those of this process.

    Returns:
        The library; None, and why, where the devices' hosts have to carry what is said. Without a
        reason where nothing else was to be expected.
    """
    spoken = [name for name, route in plan.routes.items() if route.collectives]
    if not spoken or any(joined_name(name) not in module.signatures for name in spoken):
        return None, ""
    if len(set(devices)) != len(devices):
        return None, "NCCL wants each GPU once"
    try:
        nccl = Nccl()
        os.environ.setdefault(_DIRECT, "1")
        offer(nccl.path)
        keep_memory("cuda")
    except EdgecError as error:
        return None, error.what
    return nccl, ""


def meet(nccl: Nccl, plan: Plan, modules: Sequence[LoadedModule]) -> str:
    """Let the modules of all devices find each other; why they do not, or empty.

    Args:
        nccl: the library.
        plan: what the devices do; all its collectives are between the same groups.
        modules: of each device of the mesh, in its order.
    """
    steps = [step for route in plan.routes.values() for step in route.collectives]
    identities = {group: nccl.identity() for group in steps[0].groups}
    # All at once: each waits in it for the others.
    with ThreadPoolExecutor(len(modules)) as pool:
        futures = []
        for device, module in enumerate(modules):
            group = group_of(steps[0], device) or ()
            rank = group.index(device)
            futures.append(pool.submit(module.join, identities[group], rank, len(group)))
    errors = [error for error in (each.exception() for each in futures) if error]
    for error in errors:
        if not isinstance(error, EdgecError):
            raise error
    return str(errors[0]) if errors else ""
