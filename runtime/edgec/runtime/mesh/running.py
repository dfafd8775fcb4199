"""A folder of a program for a mesh to functions of whole arrays, on devices of this process.

Each device has the module loaded with its own weights. All of them go through the same route at the
same time, each in a thread of its own, and speak to each other through a channel between two parts
of it (or one after the other, where one device stands for all).
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from edgec.runtime.array import DeviceArray
from edgec.runtime.closing import Closing
from edgec.runtime.device import Device
from edgec.runtime.errors import DeviceError, InputError, UsageError
from edgec.runtime.fitness import default_device
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.mesh.channel import Channel, HostChannel, Silenced, Value, host_array
from edgec.runtime.mesh.folder import MeshFolder
from edgec.runtime.mesh.function import MeshFunction
from edgec.runtime.mesh.joined import joined_name, takes
from edgec.runtime.mesh.meeting import introduce, meet
from edgec.runtime.mesh.nccl import Nccl
from edgec.runtime.mesh.plan import Plan, Route
from edgec.runtime.mesh.processes import ProcessChannel
from edgec.runtime.mesh.shards import cut
from edgec.runtime.mesh.speaking import channel_for
from edgec.runtime.mesh.together import Together
from edgec.runtime.mesh.walking import Walk, in_turns, last_uses, walk, with_channel
from edgec.runtime.module import Module

__all__ = ["LoadedMesh", "load_mesh"]


def load_mesh(
    path: Path | str,
    devices: Sequence[str] = (),
    *,
    simulate: bool = False,
    processes: bool = False,
    by_parts: bool = False,
) -> "LoadedMesh":
    """Load a program for a mesh onto devices of this machine.

    Args:
        path: the folder that `edgec compile --mesh` made.
        devices: a URI for each device of the mesh, in its order; none for the one that the module
            was compiled for, as often as the mesh has devices.
        simulate: whether the devices take turns: one device does the work of all of them. With
            `devices` empty or of one.
        processes: whether each device has a process of its own, all of which call this, as
            torchrun starts them; this one has the device of its rank.
        by_parts: whether the devices' hosts call the parts one by one and carry what is said
            between them, even where the module has each device's whole way.

    Raises:
        UsageError: the mesh has another number of devices, or there are not as many processes.
        And what `edgec.runtime.load` raises.
    """
    folder = MeshFolder(Path(path))
    count = folder.plan.mesh.devices
    chosen = [_that_speaks(each, folder.module) for each in devices or (None,)]
    if len(chosen) == 1 and (simulate or not devices):
        chosen *= count
    if len(chosen) != count:
        raise UsageError(
            f"{folder.path} is for {count} devices ({folder.plan.mesh}), not {len(chosen)}",
            hint=f"name {count}, separated by commas, or let one stand for all: --simulate={count}",
        )
    apart = ProcessChannel(folder.plan) if processes else None
    numbers = range(count) if apart is None else [apart.number]
    nccl, note = None, ""
    if apart is None and not (simulate or by_parts) and count > 1:
        nccl, note = introduce(folder.module, folder.plan, [str(each) for each in chosen])
    with ExitStack() as stack:
        if apart is not None:
            stack.callback(apart.close)
        loaded = {
            number: stack.enter_context(
                load(folder.module, device=chosen[number], weights=folder.weights[number])
            )
            for number in numbers
        }
        stack.pop_all()
    if nccl is not None:
        note = meet(nccl, folder.plan, tuple(loaded.values()))
    return LoadedMesh(
        folder=folder,
        modules=loaded,
        at_once=not simulate,
        apart=apart,
        nccl=None if note else nccl,
        note=note,
    )


def _that_speaks(device: str | None, module: Module) -> str | None:
    """The device, or of those that `cuda` stands for the one whose memory NCCL reaches: IREE's."""
    return "cuda://0" if (device or default_device(module)) == "cuda" else device


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """A route's function: its name, which of the route's inputs it takes, and whether a number."""

    name: str
    places: tuple[int, ...]
    numbered: bool


def _joined(plan: Plan, module: LoadedModule) -> dict[str, _Joined]:
    found: dict[str, _Joined] = {}
    for name, route in plan.routes.items():
        if route.collectives:
            function = joined_name(name)
            places, numbered = takes(route, module.signatures[function])
            found[name] = _Joined(name=function, places=places, numbered=numbered)
    return found


class LoadedMesh(Closing):
    """A program for a mesh on its devices; `mesh.main(x)` takes and gives whole arrays.

    Attributes:
        folder: where it came from.
        numbers: the devices of the mesh that this process has: all, or one.
        signatures: the functions of the whole program, by name.
    """

    def __init__(
        self,
        *,
        folder: MeshFolder,
        modules: Mapping[int, LoadedModule],
        at_once: bool,
        apart: ProcessChannel | None = None,
        nccl: Nccl | None = None,
        note: str = "",
    ) -> None:
        self.folder = folder
        self.numbers = tuple(modules)
        self.signatures = {name: r.signature for name, r in folder.plan.routes.items()}
        self._modules = tuple(modules.values())
        self._ranks = [
            module.device.put(np.asarray(number, np.uint32)) for number, module in modules.items()
        ]
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._apart = apart
        self._channel: Channel = HostChannel(len(modules)) if apart is None else apart
        self._note = f"parts are called one by one: {note}" if note else ""
        self._joined: dict[str, _Joined] = {}
        self._crew: Together | None = None
        self._spoken = ""
        if apart is None and at_once and self._modules[1:]:
            self._workers = ThreadPoolExecutor(len(modules))
            if nccl is None:
                self._channel, said = channel_for(folder.plan, self._modules)
                self._note = "; ".join(filter(None, (self._note, said)))
            else:
                self._spoken = f"NCCL {nccl.version} on the devices' own streams"
                self._joined = _joined(folder.plan, self._modules[0])
                self._crew = Together(len(modules))
        self._functions = {
            name: MeshFunction(route=route, owner=self)
            for name, route in folder.plan.routes.items()
        }

    @property
    def devices(self) -> tuple[str, ...]:
        """The URI of each device."""
        return tuple(module.device.uri for module in self._modules)

    @property
    def in_turns(self) -> bool:
        """Whether one device after the other works, not all at once."""
        return self._workers is None and self._apart is None

    @property
    def first_device(self) -> Device:
        """The first of them.

        Raises:
            DeviceError: the program is closed.
        """
        if not self._modules:
            raise DeviceError(f"{self.folder.path} is closed", hint="load it again")
        return self._modules[0].device

    @property
    def notes(self) -> tuple[str, ...]:
        """Why something is not done the way that the devices stand for, each once."""
        found = [module.note for module in self._modules] + [self._note]
        return tuple(dict.fromkeys(note for note in found if note))

    def __getitem__(self, name: str) -> "MeshFunction":
        """The function of this name.

        Raises:
            InputError: there is none.
        """
        if name not in self._functions:
            raise InputError(
                f"{self.folder.path} has no function {name!r}",
                hint=f"it has {', '.join(self._functions)}",
            )
        return self._functions[name]

    def __getattr__(self, name: str) -> "MeshFunction":
        """`mesh.main` for `mesh["main"]`."""
        functions: dict[str, MeshFunction] = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"{type(self).__name__} has no attribute or function {name!r}")

    @property
    def spoken(self) -> str:
        """How the devices speak to each other: `NCCL 2.27.7`, `host memory`, `gloo`."""
        return self._spoken or self._channel.name

    def put(self, route: Route, leaves: Sequence[np.ndarray]) -> list[list[Value]]:
        """For each device its shards of a function's inputs, on the device.

        Raises:
            InputError: an axis cannot be cut so.
            DeviceError: a device failed.
        """
        mesh = self.folder.plan.mesh
        cuts = [cut(leaf, how, mesh) for leaf, how in zip(leaves, route.inputs, strict=True)]
        return [
            [module.device.put(shards[number]) for shards in cuts]
            for number, module in zip(self.numbers, self._modules, strict=True)
        ]

    def go(self, route: Route, shards: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """Let every device go through a route with its shards of the inputs, to the outputs'.

        Raises:
            DeviceError: a device failed, or the program is closed.
        """
        _ = self.first_device
        joined = self._joined.get(route.signature.name)
        last = last_uses(route)
        with self._lock:
            if joined is not None and self._crew is not None:
                return self._gone(joined, shards, self._crew)
            self._channel.prepare(route)
            walks = [
                walk(route, module, rank, self._there(module, own), last)
                for rank, module, own in zip(self._ranks, self._modules, shards, strict=True)
            ]
            if self._apart is not None:
                return [with_channel(walks[0], self._apart.number, self._apart)]
            if self._workers is None:
                return in_turns(walks)
            futures = [
                self._workers.submit(self._one, going, number) for number, going in enumerate(walks)
            ]
            wait(futures)
            errors = [error for error in (each.exception() for each in futures) if error]
            if not errors:
                return [each.result() for each in futures]
            self._channel.restore()
        raise next((each for each in errors if not isinstance(each, Silenced)), errors[0])

    def _gone(
        self, joined: "_Joined", shards: Sequence[Sequence[Value]], crew: Together
    ) -> list[list[Value]]:
        """Let every device go its whole way by itself."""

        def way(rank: DeviceArray, module: LoadedModule, own: Sequence[Value]) -> list[Value]:
            given = [own[place] for place in joined.places]
            return list(
                module[joined.name].call_flat([*given, *([rank] if joined.numbered else [])])
            )

        devices = zip(self._ranks, self._modules, shards, strict=True)
        return crew([partial(way, *each) for each in devices])

    def everywhere(self, values: Sequence[Value]) -> list[np.ndarray]:
        """Every device's array, of those of this process.

        Raises:
            Silenced: another process does not come.
        """
        if self._apart is not None:
            return self._apart.everywhere(values[0])
        return [host_array(value) for value in values]

    def _there(self, module: LoadedModule, shards: Sequence[Value]) -> dict[int, DeviceArray]:
        """A device's shards on the device, before anybody works."""
        put = module.device.put
        given = [each if isinstance(each, DeviceArray) else put(each) for each in shards]
        return dict(enumerate(given))

    def _one(self, going: Walk, number: int) -> list[Value]:
        try:
            return with_channel(going, number, self._channel)
        except BaseException:
            self._channel.abort()
            raise

    def close(self) -> None:
        """Let go of the modules. Closing twice is fine."""
        if self._workers is not None:
            self._workers.shutdown()
        self._channel.close()
        if self._crew is not None:
            self._crew.close()
        if self._crew is not None and self._crew.stranded:
            # A device that waits for ever lets go of nothing: what it holds goes with the process.
            self._modules = ()
            return
        if self._joined and self._modules:
            with ThreadPoolExecutor(len(self._modules)) as pool:
                list(pool.map(LoadedModule.leave, self._modules))
        for module in self._modules:
            module.close()
        self._modules = ()

    def __repr__(self) -> str:
        names = ", ".join(self._functions)
        return f"<LoadedMesh {self.folder.path} on {', '.join(self.devices)}: {names}>"
