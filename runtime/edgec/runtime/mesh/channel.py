"""How the devices of a mesh speak to each other while a call goes on, each in a thread of its own.

Every device comes to each collective of a route with its own array, and goes on with what it gets.
`HostChannel` carries collectives out in this process's memory; `nccl_channel` on GPUs' own.
"""

import threading
from typing import Protocol

import numpy as np

from edgec.runtime.array import DeviceArray
from edgec.runtime.errors import DeviceError
from edgec.runtime.mesh.collectives import collect
from edgec.runtime.mesh.plan import Collective, Route

__all__ = ["Channel", "HostChannel", "Silenced", "Value", "host_array", "silenced"]

Value = DeviceArray | np.ndarray
"""One device's array: on the device, or in the host's memory."""


class Silenced(DeviceError):
    """Another device of the mesh failed, so that this one has nobody to speak to."""


class Channel(Protocol):
    """What carries out collectives."""

    @property
    def name(self) -> str:
        """How, in a word or two: `host memory`, `NCCL 2.27.7`."""
        ...

    def prepare(self, route: Route) -> None:
        """Have ready what a call will need, before the devices' threads begin.

        Raises:
            DeviceError: out of memory.
        """
        ...

    def collect(self, step: Collective, number: int, value: Value) -> Value:
        """Give one device's array to a collective, and take what comes of it.

        Raises:
            Silenced: another device does not come.
            DeviceError: the device failed.
        """
        ...

    def abort(self) -> None:
        """Let everybody who waits, or comes, give up: one device has failed."""
        ...

    def restore(self) -> None:
        """Be ready for the next call, when all have given up.

        Raises:
            DeviceError: a device failed for good.
        """
        ...

    def close(self) -> None:
        """Let go of everything. Closing twice is fine."""
        ...


class HostChannel:
    """Collectives in this process's memory, in the devices' order: every run gives the same bits.

    Attributes:
        name: for reports.
    """

    name = "host memory"

    def __init__(self, devices: int) -> None:
        self._given: list[np.ndarray] = [np.empty(0)] * devices
        self._made: list[np.ndarray] = []
        self._error: BaseException | None = None
        self._barrier = threading.Barrier(devices)

    def prepare(self, route: Route) -> None:
        """Nothing."""

    def collect(self, step: Collective, number: int, value: Value) -> Value:
        """One of the devices' threads does the work, when all are there."""
        self._given[number] = host_array(value)
        try:
            if self._barrier.wait() == 0:
                self._carry_out(step)
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise silenced() from None
        if self._error is not None:
            raise silenced() if number else self._error
        return self._made[number]

    def _carry_out(self, step: Collective) -> None:
        try:
            self._made, self._error = collect(step, self._given), None
        except Exception as error:  # noqa: BLE001 - told in the first device's thread
            self._error = error

    def abort(self) -> None:
        """Break the barrier."""
        self._barrier.abort()

    def restore(self) -> None:
        """Mend it."""
        self._barrier.reset()
        self._error = None

    def close(self) -> None:
        """Forget the arrays of the last collective."""
        self._made = []
        self._given = [np.empty(0)] * len(self._given)


def host_array(value: Value) -> np.ndarray:
    """A value in the host's memory; shared where the device's memory is the host's."""
    return value.numpy() if isinstance(value, DeviceArray) else value


def silenced() -> Silenced:
    """What a device says that waits for one which has failed."""
    return Silenced("another device of the mesh failed", hint="see its error")
