"""A module file on a device: functions that take and give NumPy arrays, and state between calls."""

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.backend import Copying, Program, Speaking
from edgec.runtime.closing import Closing
from edgec.runtime.declaration import parse_declaration
from edgec.runtime.device import Device, device_choices
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import (
    DeviceError,
    DeviceMissing,
    EdgecError,
    InputError,
    ModuleError,
    ModuleMismatch,
    WrongAnswer,
)
from edgec.runtime.fitness import check_fits, default_device
from edgec.runtime.function import Function
from edgec.runtime.module import GET_STATE, SET_STATE, Module
from edgec.runtime.parameters import WeightsFile, weights_path
from edgec.runtime.proving import Proof
from edgec.runtime.proving import prove as prove_loaded
from edgec.runtime.public_key import public_key
from edgec.runtime.signature import Signature, TensorSpec

__all__ = ["Function", "LoadedModule", "load"]

_LOG = logging.getLogger("edgec.runtime")


def load(
    path: Path | str | Module,
    *,
    device: str | Device | None = None,
    weights: Path | str | None = None,
    prove: bool = False,
    verdicts: Path | str | None = None,
    key: Path | str | bytes | None = None,
) -> "LoadedModule":
    """Load a module onto a device.

    The devices `cpu`, `gpu` and `cuda`, on which modules for CPUs, Vulkan and CUDA run where none
    is named, are edgert; a module that edgert does not take runs on IREE's runtime, and its `note`
    and the log (`edgec.runtime`) say why.

    Args:
        path: a `.vmfb` file, a module that was read, or a package (its folder or `manifest.json`),
            of which the first variant that fits this machine is taken.
        device: a URI or a device; without it the one that the module was compiled for.
        weights: the weights file, for modules that keep theirs outside; without it the file that
            the module names, beside it.
        prove: make the golden calls that the module brings, here and now (`LoadedModule.prove`);
            of a package, a variant that fails is passed over for the next one.
        verdicts: a file that keeps what came of that, by module, device and driver version.
        key: a public key (`public_key`) whose owner must have signed the module, its weights and,
            of a package, the manifest; what is not as it was signed is refused, weights on edgert
            when they are first used.

    Raises:
        Untrusted: something is not as the key's owner signed it.
        WrongAnswer: the module does not prove itself.
        FileError: a file cannot be read.
        ModuleError: the module is damaged.
        ModuleMismatch: it was made for another device, CPU or version.
        DeviceMissing: the device is not here.
    """
    trusted = None if key is None else public_key(key)
    if not isinstance(path, Module) and _is_package(path):
        return _load_variant(
            Path(path), device, weights, prove=prove, verdicts=verdicts, key=trusted
        )
    module = path if isinstance(path, Module) else Module.read(path, key=trusted)
    if module.key != trusted and trusted is not None:
        module = Module.read(module.path, key=trusted)
    loaded = _load_module(module, device, weights)
    if prove:
        loaded.prove(verdicts)
    return loaded


def _load_variant(
    path: Path,
    device: str | Device | None,
    weights: Path | str | None,
    *,
    prove: bool,
    verdicts: Path | str | None,
    key: bytes | None,
) -> "LoadedModule":
    """The first variant of a package that runs here and, if asked, proves itself."""
    from edgec.runtime.manifest import none_fits, variants_that_fit

    refused: list[str] = []
    for variant, module, wanted in variants_that_fit(path, device, refused, key=key):
        loaded = _load_module(module, wanted, weights)
        try:
            if prove:
                loaded.prove(verdicts)
        except (WrongAnswer, DeviceError) as error:
            loaded.close()
            refused.append(f"{variant.target}: {error.what}")
            _LOG.warning("%s is passed over: %s", variant.target, error.what)
        else:
            return loaded
    raise none_fits(path, refused)


def _load_module(
    module: Module, device: str | Device | None, weights: Path | str | None
) -> "LoadedModule":
    file = weights_path(module, weights)
    mapped = None if file is None else WeightsFile.open(file)
    wanted = default_device(module) if device is None else device
    if isinstance(wanted, Device):
        return _load_on(module, wanted, mapped)
    first, *others = device_choices(wanted)
    try:
        return _load_on(module, Device.open(first), mapped)
    except (DeviceMissing, ModuleMismatch) as refused:
        for spare in others:
            loaded = _load_on_spare(module, spare, mapped, refused)
            if loaded is not None:
                return loaded
        raise


def _load_on(
    module: Module, device: Device, weights: WeightsFile | None, note: str = ""
) -> "LoadedModule":
    check_fits(module, device)
    return LoadedModule(module=module, device=device, weights=weights, note=note)


def _load_on_spare(
    module: Module, uri: str, weights: WeightsFile | None, refused: EdgecError
) -> "LoadedModule | None":
    """The module on the runtime that is there for what the first does not take, said once.

    None where it does not take the module either, and the first one's reason is the better one.
    """
    try:
        device = Device.open(uri)
        note = f"{module.path} runs on {device.runtime} ({device.uri}), not edgert: {refused.what}"
        loaded = _load_on(module, device, weights, note)
    except (DeviceMissing, ModuleMismatch):
        return None
    _LOG.warning(note)
    return loaded


def _is_package(path: Path | str) -> bool:
    path = Path(path)
    return path.is_dir() or path.suffix == ".json"


class LoadedModule(Closing):
    """A module on a device. Calls from several threads are safe and take turns.

    For calls at the same time load the module once a thread: the device, the code's memory and a
    weights file are shared, the state is not.

    Attributes:
        module: the file.
        device: where it runs.
        signatures: its functions' signatures by name.
        note: why it does not run on the runtime that `cpu` stands for; empty where it does.
        copied_bytes: of an array that `call` takes instead of a tensor, and of all of a call's.
    """

    def __init__(
        self, *, module: Module, device: Device, weights: WeightsFile | None, note: str = ""
    ) -> None:
        self.module = module
        self.device = device
        self.note = note
        self.signatures: Mapping[str, Signature] = module.signatures
        self._lock = threading.Lock()
        self._weights = weights
        program = device.backend.load(module, weights)
        self._program: Program | None = program
        self._copying = program if isinstance(program, Copying) else None
        small = self._copying
        self.copied_bytes = (0, 0) if small is None else (small.small, small.small_in_all)
        for name in module.signatures:
            if not program.has(name):
                raise ModuleError(f"{module.path} has no function {name}")
        self._functions = {
            name: Function(owner=self, signature=signature)
            for name, signature in module.signatures.items()
        }
        self._states = self._state_functions(program)

    def _state_functions(self, program: Program) -> tuple[Function, Function] | None:
        """The internal functions that get and set all states, if the module has state."""
        if not (program.has(GET_STATE) and program.has(SET_STATE)):
            return None
        specs: Sequence[TensorSpec] = self.module.facts.states
        if not specs:
            text = program.attribute(GET_STATE, "iree.abi.declaration") or ""
            declared = parse_declaration(GET_STATE, text).outputs
            specs = [
                TensorSpec(name=f"state{index}", shape=spec.shape, dtype=spec.dtype)
                for index, spec in enumerate(declared)
            ]
        return (
            Function(owner=self, signature=Signature.flat(GET_STATE, [], specs)),
            Function(owner=self, signature=Signature.flat(SET_STATE, specs, [])),
        )

    def _open_program(self) -> Program:
        if self._program is None:
            raise DeviceError(f"{self.module.path} is closed", hint="load it again")
        return self._program

    def call(
        self, name: str, values: Sequence[Any], dtypes: Sequence[DType] | None = None
    ) -> list[Any]:
        """Call a function on the runtime's own tensors, and arrays of at most `copied_bytes`.

        Its results are the runtime's; where types are given for them, some may be arrays of those
        that are the caller's own. Nothing is checked: this is what a `Function` calls.

        Raises:
            DeviceError: it failed, or the module is closed.
        """
        with self._lock:
            program = self._open_program()
            if self._copying is not None and dtypes is not None:
                return self._copying.call_on_host(name, values, dtypes)
            return program.call(name, values)

    def __getitem__(self, name: str) -> Function:
        """The function of this name.

        Raises:
            InputError: there is none.
        """
        if name in self._functions:
            return self._functions[name]
        reason = self.module.refused.get(name)
        known = ", ".join(self._functions) or "none"
        raise InputError(
            reason or f"{self.module.path} has no function {name!r}", hint=f"it has {known}"
        )

    def __getattr__(self, name: str) -> Function:
        """`module.main` for `module["main"]`."""
        functions: Mapping[str, Function] = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"{type(self).__name__} has no attribute or function {name!r}")

    def join(self, identity: bytes, rank: int, count: int) -> None:
        """Let the module's own collectives find the other devices, all of which call this at once.

        Args:
            identity: NCCL's, of the group.
            rank: this device's in the group.
            count: how many devices the group has.

        Raises:
            DeviceError: the devices do not find each other; or the runtime has no collectives.
        """
        program = self._open_program()
        if not isinstance(program, Speaking):
            raise DeviceError(f"{self.device.runtime} has no collectives")
        program.join(identity, rank, count)

    def leave(self) -> None:
        """Leave the devices that `join` found, all of which call this at once.

        Raises:
            DeviceError: they do not.
        """
        program = self._open_program()
        if isinstance(program, Speaking):
            program.leave()

    def reset(self) -> None:
        """Set the state to what it was when the module was loaded."""
        with self._lock:
            self._open_program().reset()

    def state(self) -> dict[str, np.ndarray]:
        """The current values of all states by name; empty for a module without state.

        Raises:
            DeviceError: the module is closed.
        """
        if self._states is None:
            return {}
        getter = self._states[0]
        names = [spec.name for spec in getter.signature.outputs]
        return dict(zip(names, getter.on_host([]), strict=True))

    def set_state(self, values: Mapping[str, Any]) -> None:
        """Set states by name; those that are not named keep their values.

        Raises:
            InputError: an unknown name, or a wrong shape or type.
            DeviceError: the module is closed.
        """
        known = () if self._states is None else self._states[1].signature.inputs
        names = [spec.name for spec in known]
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise InputError(
                f"{self.module.path} has no state {', '.join(unknown)}",
                hint=f"it has {', '.join(names) or 'none'}",
            )
        if self._states is None or not values:
            return
        getter, setter = self._states
        current = getter.call_flat([]) if len(values) < len(names) else (None,) * len(names)
        setter.call_flat([values.get(name, old) for name, old in zip(names, current, strict=True)])

    def prove(self, verdicts: Path | str | None = None) -> Proof:
        """Make the golden calls that the module brings on this device, and compare the answers.

        State is fresh before and after.

        Args:
            verdicts: a file to keep what came of it in, by module, device and driver version: one
                call after an update of any of them, and none else.

        Raises:
            WrongAnswer: an answer is off; it says which, and by how much.
            ModuleError: the module brings no golden calls, or damaged ones.
            FileError: the file of verdicts cannot be read or written.
            DeviceError: the device failed.
        """
        return prove_loaded(self, verdicts)

    def close(self) -> None:
        """Let go of the module; arrays it gave stay valid, calls raise. Closing twice is fine."""
        with self._lock:
            self._program = self._copying = None
            self._weights = None

    def __repr__(self) -> str:
        functions = ", ".join(self._functions)
        return f"<LoadedModule {self.module.path} on {self.device.uri}: {functions}>"
