"""A folder of a program for a mesh to functions of whole arrays, on devices of this process.

Each device has the module loaded with its own weights. All of them go through the same route at the
same time, each in a thread of its own, and speak to each other through a channel between two parts
of it (or one after the other, where one device stands for all).
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.arguments import check_input
from edgec.runtime.array import DeviceArray
from edgec.runtime.closing import Closing
from edgec.runtime.device import Device
from edgec.runtime.errors import DeviceError, InputError, UsageError
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.mesh.channel import Channel, HostChannel, Silenced, Value, host_array
from edgec.runtime.mesh.folder import MeshFolder
from edgec.runtime.mesh.plan import Route
from edgec.runtime.mesh.shards import cut, is_whole, join
from edgec.runtime.mesh.speaking import channel_for
from edgec.runtime.mesh.walking import Walk, in_turns, last_uses, walk, with_channel
from edgec.runtime.signature import Signature

__all__ = ["LoadedMesh", "MeshFunction", "load_mesh"]


def load_mesh(
    path: Path | str, devices: Sequence[str] = (), *, simulate: bool = False
) -> "LoadedMesh":
    """Load a program for a mesh onto devices of this machine.

    Args:
        path: the folder that `edgec compile --mesh` made.
        devices: a URI for each device of the mesh, in its order; none for the one that the module
            was compiled for, as often as the mesh has devices.
        simulate: whether the devices take turns: one device does the work of all of them. With
            `devices` empty or of one.

    Raises:
        UsageError: the mesh has another number of devices.
        And what `edgec.runtime.load` raises.
    """
    folder = MeshFolder(Path(path))
    count = folder.plan.mesh.devices
    chosen: list[str | None] = [*devices] or [None]
    if len(chosen) == 1 and (simulate or not devices):
        chosen *= count
    if len(chosen) != count:
        raise UsageError(
            f"{folder.path} is for {count} devices ({folder.plan.mesh}), not {len(chosen)}",
            hint=f"name {count}, separated by commas, or let one stand for all: --simulate={count}",
        )
    with ExitStack() as stack:
        loaded = [
            stack.enter_context(load(folder.module, device=uri, weights=weights))
            for uri, weights in zip(chosen, folder.weights, strict=True)
        ]
        stack.pop_all()
    return LoadedMesh(folder=folder, modules=loaded, at_once=not simulate)


class LoadedMesh(Closing):
    """A program for a mesh on its devices; `mesh.main(x)` takes and gives whole arrays.

    Attributes:
        folder: where it came from.
        signatures: the functions of the whole program, by name.
    """

    def __init__(
        self, *, folder: MeshFolder, modules: Sequence[LoadedModule], at_once: bool
    ) -> None:
        self.folder = folder
        self.signatures = {name: r.signature for name, r in folder.plan.routes.items()}
        self._modules = tuple(modules)
        self._numbers = [
            module.device.put(np.asarray(number, np.uint32))
            for number, module in enumerate(modules)
        ]
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._channel: Channel = HostChannel(len(modules))
        self._note = ""
        if at_once and modules[1:]:
            self._channel, self._note = channel_for(folder.plan, modules)
            self._workers = ThreadPoolExecutor(len(modules))
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
        return self._workers is None

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
        """How the devices speak to each other: `NCCL 2.27.7`, `host memory`."""
        return self._channel.name

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
            for number, module in enumerate(self._modules)
        ]

    def go(self, route: Route, shards: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """Let every device go through a route with its shards of the inputs, to the outputs'.

        Raises:
            DeviceError: a device failed, or the program is closed.
        """
        _ = self.first_device
        last = last_uses(route)
        with self._lock:
            self._channel.prepare(route)
            walks = [
                walk(route, module, number, self._there(module, own), last)
                for number, module, own in zip(self._numbers, self._modules, shards, strict=True)
            ]
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
        for module in self._modules:
            module.close()
        self._modules = ()

    def __repr__(self) -> str:
        names = ", ".join(self._functions)
        return f"<LoadedMesh {self.folder.path} on {', '.join(self.devices)}: {names}>"


class MeshFunction:
    """One function of the whole program."""

    def __init__(self, *, route: Route, owner: LoadedMesh) -> None:
        self._route = route
        self._owner = owner
        self.signature: Signature = route.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with whole arrays; results nested as the model returned them.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        leaves = self.signature.bind(args, kwargs)
        return self.signature.unflatten(self.call_flat(leaves))

    def call_flat(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """Call it with flat inputs in the signature's order; flat outputs.

        Raises:
            InputError: wrong count, or an argument has the wrong shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        specs, mesh = self.signature.inputs, self._owner.folder.plan.mesh
        self.signature.refuse_other_count(len(leaves))
        device = self._owner.first_device
        sizes: dict[str, int] = {}
        whole: list[np.ndarray] = []
        for spec, leaf in zip(specs, leaves, strict=True):
            array = check_input(spec, leaf, device, sizes)
            whole.append(array.numpy() if isinstance(array, DeviceArray) else array)
        cuts = [cut(leaf, how, mesh) for leaf, how in zip(whole, self._route.inputs, strict=True)]
        shards = [[each[number] for each in cuts] for number in range(mesh.devices)]
        made = self._owner.go(self._route, shards)
        outputs = []
        for place, (_, how) in enumerate(self._route.outputs):
            apart = made[:1] if is_whole(how) else made
            found = [host_array(of_one[place]) for of_one in apart]
            outputs.append(np.array(join(found, how, mesh)))
        return outputs

    def put(self, *args: Any, **kwargs: Any) -> list[list[Value]]:
        """Each device's shards of the arguments, on the device, for `on_devices`.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        device, sizes = self._owner.first_device, dict[str, int]()
        leaves = self.signature.bind(args, kwargs)
        specs = self.signature.inputs
        arrays = [
            check_input(s, leaf, device, sizes) for s, leaf in zip(specs, leaves, strict=True)
        ]
        return self._owner.put(self._route, [host_array(array) for array in arrays])

    def on_devices(self, shards: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """Call it with what `put` gave: each device's shards of the outputs, where they are.

        Raises:
            DeviceError: a device failed, or the program is closed.
        """
        return self._owner.go(self._route, shards)
