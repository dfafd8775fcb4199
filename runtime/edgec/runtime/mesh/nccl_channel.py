"""Collectives between GPUs of this process on their own memory, by NCCL.

What a part gives lies in memory of the driver's pool, whose address IREE's runtime does not tell.
So each collective has buffers of its own, whose address it does tell (DLPack): the part's result is
copied there on the device, NCCL works there, and the next part takes the buffer as its input.
Buffers are used again as soon as nobody holds what is in them.
"""

import ctypes
import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from edgec.runtime.array import DeviceArray, copy_in
from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.device import Device
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError
from edgec.runtime.mesh.channel import Value, silenced
from edgec.runtime.mesh.nccl import ELEMENTS, REDUCTIONS, Communicator, Nccl
from edgec.runtime.mesh.plan import Collective, Route
from edgec.runtime.mesh.sizes import Size
from edgec.runtime.mesh.speaker import Buffer, Speaker
from edgec.runtime.mesh.walking import last_uses

__all__ = ["NcclChannel", "buffers_of", "refused"]

_IN_PLACE = ("all_reduce", "collective_broadcast")
_REDUCING = ("all_reduce", "reduce_scatter")


def refused(step: Collective, dtype: DType) -> str:
    """Why NCCL does not carry out a collective; empty where it does."""
    if step.kind in _REDUCING and (step.operation not in REDUCTIONS or dtype not in ELEMENTS):
        return f"NCCL has no {step.kind} by {step.operation} of {dtype.value}"
    if step.axis or step.onto:
        return f"NCCL has no {step.kind} along an inner axis"
    return ""


def buffers_of(route: Route, sizes: Mapping[int, Size]) -> Counter[int]:
    """How many buffers of which size a device needs at once to go through a route.

    Args:
        route: what the device does.
        sizes: of its values (`sizes_of`).
    """
    most: Counter[int] = Counter()
    held: dict[int, int] = {}
    before: Sequence[int] = ()
    for step, gone in zip(route.steps, last_uses(route), strict=True):
        if isinstance(step, Collective):
            given, made = sizes[step.input][0], sizes[step.output][0]
            now = Counter([given, *held.values()])
            if step.kind not in _IN_PLACE:
                now[made] += 1
            most |= now
            held[step.output] = made
        # What is used last here may be held until the next step.
        for value in before:
            held.pop(value, None)
        before = gone
    return most


class NcclChannel:
    """Collectives between different GPUs, each with a thread of its own.

    Attributes:
        name: with NCCL's version.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        contexts: Sequence[CudaContext],
        buffers: Mapping[str, Counter[int]],
        steps: Iterable[Collective],
        nccl: Nccl,
    ) -> None:
        """Let the groups of all collectives find each other.

        Args:
            devices: of the mesh, in its order, of IREE's CUDA driver.
            contexts: of these devices.
            buffers: of each function, how many buffers of which size a device needs at once
                (`buffers_of`).
            steps: the collectives that there will be, none of which is `refused`.
            nccl: the library.

        Raises:
            DeviceError: GPUs do not reach each other.
        """
        self.name = f"NCCL {nccl.version}"
        self._nccl = nccl
        self._buffers = buffers
        self._speakers = [Speaker(d, c) for d, c in zip(devices, contexts, strict=True)]
        self._groups = {group for step in steps for group in self._groups_of(step)}
        self._members: dict[tuple[int, ...], list[Communicator]] = {}
        self._lock = threading.Lock()
        self._aborted = False
        self.restore()

    def prepare(self, route: Route) -> None:
        """Allocate what the call will need.

        Not while the call goes on: what one GPU allocates becomes visible to the others, for which
        the driver may wait until they are idle, and they may be waiting for this one in NCCL.
        """
        for speaker in self._speakers:
            speaker.context.enter()
            speaker.reserve(self._buffers[route.signature.name])

    def _groups_of(self, step: Collective) -> tuple[tuple[int, ...], ...]:
        if step.kind == "collective_permute":
            return (tuple(range(len(self._speakers))),)
        return step.groups

    def restore(self) -> None:
        """Make the communicators, if there are none."""
        if self._members:
            return
        self._aborted = False
        for group in sorted(self._groups):
            ordinals = [self._speakers[device].context.ordinal for device in group]
            self._members[group] = self._nccl.communicators(ordinals)

    def collect(self, step: Collective, number: int, value: Value) -> Value:
        """Enqueue this device's share on its stream, and wait for it."""
        speaker = self._speakers[number]
        speaker.context.enter()
        if not isinstance(value, DeviceArray):
            value = copy_in(speaker.device, value, DType.of(value.dtype))
        group = next((g for g in self._groups_of(step) if number in g), None)
        if group is None:
            raise DeviceError(f"{step.kind} leaves device {number} out", hint="compile again")
        if self._aborted:
            raise silenced()
        given = speaker.copied(value)
        try:
            made, shape = self._enqueue(step, number, group, given, value)
            speaker.context.wait(speaker.stream)
        except DeviceError:
            if self._aborted:
                raise silenced() from None
            raise
        if self._aborted:
            raise silenced()
        if made is not given:
            speaker.give_back(given)
        return speaker.array(made, shape, value.dtype)

    def _enqueue(
        self,
        step: Collective,
        number: int,
        group: tuple[int, ...],
        given: Buffer,
        value: DeviceArray,
    ) -> tuple[Buffer, tuple[int, ...]]:
        """This device's calls of NCCL: where the result will be, and its shape."""
        speaker, others = self._speakers[number], len(group)
        members = self._members.get(group)
        if members is None:
            raise silenced()
        end = (members[group.index(number)], speaker.stream)
        shape, first = value.shape, value.shape[:1]
        count, size = math.prod(shape), value.nbytes
        element = ELEMENTS.get(value.dtype, -1)
        bytes_of = (ctypes.c_size_t(size), ELEMENTS[DType.U8])
        source = ctypes.c_void_p(given.address)
        call = self._nccl.call
        match step.kind:
            case "all_reduce":
                operation = REDUCTIONS[step.operation]
                amount = ctypes.c_size_t(count)
                call("ncclAllReduce", source, source, amount, element, operation, *end)
                return given, shape
            case "collective_broadcast":
                call("ncclBroadcast", source, source, *bytes_of, 0, *end)
                return given, shape
            case "all_gather":
                made = speaker.buffer(size * others)
                call("ncclAllGather", source, ctypes.c_void_p(made.address), *bytes_of, *end)
                return made, (first[0] * others, *shape[1:])
            case "reduce_scatter":
                made = speaker.buffer(size // others)
                operation, amount = REDUCTIONS[step.operation], ctypes.c_size_t(count // others)
                target = ctypes.c_void_p(made.address)
                call("ncclReduceScatter", source, target, amount, element, operation, *end)
                return made, (first[0] // others, *shape[1:])
            case "all_to_all":
                made = speaker.buffer(size)
                piece = size // others
                sent = [(peer, given.address + peer * piece) for peer in range(others)]
                got = [(peer, made.address + peer * piece) for peer in range(others)]
                self._exchange(sent, got, piece, end)
                return made, shape
            case _:
                made = speaker.buffer(size)
                sent = [(to, given.address) for origin, to in step.groups if origin == number]
                got = [(origin, made.address) for origin, to in step.groups if to == number]
                if not got:
                    speaker.context.zero(made.address, size, speaker.stream)
                self._exchange(sent, got, size, end)
                return made, shape

    def _exchange(
        self,
        sent: Sequence[tuple[int, int]],
        got: Sequence[tuple[int, int]],
        size: int,
        end: tuple[Communicator, ctypes.c_void_p],
    ) -> None:
        """Send and receive bytes: pairs of the other's rank and an address."""
        amount = (ctypes.c_size_t(size), ELEMENTS[DType.U8])
        self._nccl.call("ncclGroupStart")
        for peer, address in sent:
            self._nccl.call("ncclSend", ctypes.c_void_p(address), *amount, peer, *end)
        for peer, address in got:
            self._nccl.call("ncclRecv", ctypes.c_void_p(address), *amount, peer, *end)
        self._nccl.call("ncclGroupEnd")

    def abort(self) -> None:
        """Tear the communicators down: kernels that wait for the failed device end."""
        self._tear("ncclCommAbort")

    def close(self) -> None:
        """Let go of communicators and buffers."""
        self._tear("ncclCommDestroy")
        for speaker in self._speakers:
            speaker.forget()

    def _tear(self, how: str) -> None:
        with self._lock:
            members, self._members = self._members, {}
            self._aborted = True
            for each in (member for group in members.values() for member in group):
                self._nccl.call(how, each)
