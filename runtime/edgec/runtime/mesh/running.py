"""A folder of a program for a mesh to functions of whole arrays, on devices of this process.

Each device has the module loaded with its own weights. All of them make the same part of the
program at the same time (or one after the other, where one device stands for all), and the
collectives between two parts are carried out on their results in this process's memory.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.arguments import check_input
from edgec.runtime.array import DeviceArray
from edgec.runtime.closing import Closing
from edgec.runtime.device import Device
from edgec.runtime.errors import DeviceError, InputError, ModuleError, UsageError
from edgec.runtime.files import read_bytes
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.mesh.collectives import collect
from edgec.runtime.mesh.plan import Call, Plan, Route
from edgec.runtime.mesh.shards import cut, join
from edgec.runtime.module import Module
from edgec.runtime.signature import Signature

__all__ = ["MANIFEST", "LoadedMesh", "MeshFolder", "is_mesh", "load_mesh"]

MANIFEST = "mesh.json"
"""What makes a folder a program for a mesh: the plan, the module and each device's weights."""


class MeshFolder:
    """A program for a mesh, read and not loaded.

    Attributes:
        path: the folder.
        plan: what the devices do.
        module: the module with the program's parts.
        weights: the weights file of each device; None for a program without weights.
        target: what the module was compiled for.
    """

    def __init__(self, path: Path) -> None:
        """Read the manifest and the module.

        Raises:
            FileError: a file is missing.
            ModuleError: the manifest is damaged, or of another module.
        """
        self.path = path
        try:
            value = json.loads(read_bytes(path / MANIFEST))
            self.plan = Plan.from_json(value["plan"])
            self.target = str(value["target"])
            module, digest = str(value["module"]), str(value["digest"])
            weights = [None if name is None else path / str(name) for name in value["weights"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ModuleError(
                f"{path / MANIFEST} is damaged: {error!r}", hint="compile the program again"
            ) from error
        self.module = Module.read(path / module)
        if self.module.digest != digest or len(weights) != self.plan.mesh.devices:
            raise ModuleError(
                f"{path / MANIFEST} is not of the module beside it",
                hint="compile the program again, and copy the folder as a whole",
            )
        self.weights = weights


def is_mesh(path: Path) -> bool:
    """Whether a folder is a program for a mesh."""
    return (path / MANIFEST).is_file()


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
        self._workers = ThreadPoolExecutor(len(modules)) if at_once and modules[1:] else None
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
        """Why modules do not run on the runtime that their devices stand for, each once."""
        return tuple(dict.fromkeys(module.note for module in self._modules if module.note))

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

    def on_each(self, work: Callable[[LoadedModule, int], Any]) -> list[Any]:
        """What `work` gives for each device's module and the device's number."""
        numbers = range(len(self._modules))
        each = self._workers.map if self._workers is not None else map
        return list(each(work, self._modules, numbers))

    def close(self) -> None:
        """Let go of the modules. Closing twice is fine."""
        if self._workers is not None:
            self._workers.shutdown()
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
        values: dict[int, list[np.ndarray]] = {}
        for number, (spec, leaf) in enumerate(zip(specs, leaves, strict=True)):
            array = check_input(spec, leaf, device, sizes)
            whole = array.numpy() if isinstance(array, DeviceArray) else array
            values[number] = cut(whole, self._route.inputs[number], mesh)
        for step in self._route.steps:
            if isinstance(step, Call):
                self._make(step, values)
            else:
                values[step.output] = collect(step, values[step.input])
        return [np.array(join(values[n], cut_, mesh)) for n, cut_ in self._route.outputs]

    def _make(self, step: Call, values: dict[int, list[np.ndarray]]) -> None:
        """Call one part on every device."""

        def work(module: LoadedModule, number: int) -> list[np.ndarray]:
            given: list[Any] = [values[value][number] for value in step.inputs]
            if step.numbered:
                given.append(np.uint32(number))
            return [array.numpy() for array in module[step.function].call_flat(given)]

        made = self._owner.on_each(work)
        for index, value in enumerate(step.outputs):
            values[value] = [of_one[index] for of_one in made]
