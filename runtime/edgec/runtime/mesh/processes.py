"""Collectives between processes, one device each, on one host or several: torch.distributed's gloo.

Why gloo: it comes with PyTorch for every CPU, needs no MPI on the machines, and torchrun, which
starts the processes and lets them find each other, knows how to end them all when one fails.
What a group says is gathered by everyone and worked out in the devices' order, so that the bits
are those of one process.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np

from edgec.runtime.errors import DeviceError, MissingExtra, UsageError
from edgec.runtime.mesh.channel import Silenced, Value, host_array
from edgec.runtime.mesh.collectives import collect
from edgec.runtime.mesh.plan import Collective, Plan, Route

__all__ = ["ProcessChannel"]

_PATIENCE = timedelta(seconds=300)
"""How long a process waits for another one."""
_PAIRS = "collective_permute"
_STARTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells every process that it starts."""


class ProcessChannel:
    """This process among those of the mesh's other devices.

    Attributes:
        name: for reports.
        number: which of the mesh's devices this process has.
    """

    name = "gloo"

    def __init__(self, plan: Plan) -> None:
        """Find the others: by the process group that there is, else by what torchrun has told.

        Raises:
            MissingExtra: PyTorch is not installed.
            UsageError: nobody has started several processes, or another number of them.
            DeviceError: the others do not come.
        """
        self._torch, self._own = _joined(plan.mesh.devices)
        distributed = self._torch.distributed
        count = distributed.get_world_size()
        if count != plan.mesh.devices:
            self.close()
            raise UsageError(
                f"the mesh {plan.mesh} has {plan.mesh.devices} devices, and there are {count} "
                "processes",
                hint=f"torchrun --nproc-per-node={plan.mesh.devices}",
            )
        self.number = int(distributed.get_rank())
        self._everybody = tuple(range(count))
        # Every process makes the groups of all, in the same order, as gloo wants it.
        steps = [step for route in plan.routes.values() for step in route.collectives]
        groups = {self._everybody, *(g for s in steps if s.kind != _PAIRS for g in s.groups)}
        self._groups = {
            group: distributed.new_group(list(group), timeout=_PATIENCE, backend="gloo")
            for group in sorted(groups)
        }

    def prepare(self, route: Route) -> None:
        """Nothing."""

    def collect(self, step: Collective, number: int, value: Value) -> Value:
        """Gather what the group's devices give, and take this one's share of what comes of it."""
        given = host_array(value)
        if step.kind == _PAIRS:
            made: np.ndarray = collect(step, self.everywhere(given))[number]
            return made
        group = next((each for each in step.groups if number in each), None)
        if group is None:
            raise DeviceError(f"{step.kind} leaves device {number} out", hint="compile again")
        among = replace(step, groups=(tuple(range(len(group))),))
        return collect(among, self._gathered(given, group))[group.index(number)]

    def everywhere(self, value: Value) -> list[np.ndarray]:
        """The array of every device, in their order.

        Raises:
            Silenced: another process does not come.
        """
        return self._gathered(host_array(value), self._everybody)

    def _gathered(self, array: np.ndarray, group: Sequence[int]) -> list[np.ndarray]:
        torch = self._torch
        # gloo moves bytes: it has not all of edgec's types.
        flat = np.array(array, order="C").reshape(-1).view(np.uint8)
        mine = torch.from_numpy(flat)
        found = [torch.empty_like(mine) for _ in group]
        try:
            torch.distributed.all_gather(found, mine, group=self._groups[tuple(group)])
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise Silenced(
                f"another process of the mesh failed: {reason}", hint="see what it says"
            ) from error
        return [each.numpy().view(array.dtype).reshape(array.shape) for each in found]

    def abort(self) -> None:
        """Nothing: the others find this process gone."""

    def restore(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Leave the others, if it was this channel that joined them."""
        if self._own and self._torch.distributed.is_initialized():
            self._torch.distributed.destroy_process_group()


def _joined(count: int) -> tuple[Any, bool]:
    """torch, and whether its process group was made here."""
    try:
        import torch
        import torch.distributed
    except ImportError:
        raise MissingExtra(
            "processes speak to each other by torch.distributed, which is not here",
            hint="pip install torch",
        ) from None
    if torch.distributed.is_initialized():
        return torch, False
    missing = [name for name in _STARTED if name not in os.environ]
    if missing:
        raise UsageError(
            f"this process is one alone: {missing[0]} is not set",
            hint=f"start one for each device: torchrun --nproc-per-node={count} --no-python "
            "edgec run FOLDER --processes --devices=…",
        )
    try:
        torch.distributed.init_process_group("gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceError(
            f"the processes do not find each other: {reason}",
            hint="start all of them, with the same MASTER_ADDR and MASTER_PORT",
        ) from error
    return torch, True
