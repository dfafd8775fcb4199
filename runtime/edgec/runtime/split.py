"""A folder of modules for several devices of one machine to one function over all of them.

The modules are called one after the other, each on its device; what one gives and another takes
is handed over in the host's memory.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.closing import Closing
from edgec.runtime.comparison import CallResult, GoldenResult, compare_call
from edgec.runtime.errors import ModuleError
from edgec.runtime.files import read_bytes
from edgec.runtime.golden import Golden
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.module import Module
from edgec.runtime.signature import Signature
from edgec.runtime.tolerance import Tolerance

__all__ = ["SPLIT", "LoadedSplit", "SplitStep", "is_split", "load_split", "write_split"]

SPLIT = "split.json"
"""What makes a folder a program that is split: which module is called where, with what."""

_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class SplitStep:
    """One module's call.

    Attributes:
        module: the file in the folder.
        digest: the module's, so that no other one takes its place.
        device: where it runs.
        inputs: the numbers of the values it takes; the whole function's inputs come first.
        outputs: the numbers of those it gives.
    """

    module: str
    digest: str
    device: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def write_split(
    folder: Path, signature: Signature, steps: Sequence[SplitStep], outputs: Sequence[int]
) -> None:
    """Write the manifest of a split program into its folder.

    Raises:
        FileError: it cannot be written.
    """
    from edgec.runtime.files import write_atomically

    value = {
        "schema": _SCHEMA,
        "signature": signature.to_json(),
        "outputs": list(outputs),
        "steps": [
            {
                "module": step.module,
                "digest": step.digest,
                "device": step.device,
                "inputs": list(step.inputs),
                "outputs": list(step.outputs),
            }
            for step in steps
        ],
    }
    with write_atomically(folder / SPLIT) as stream:
        stream.write(json.dumps(value, indent=1).encode())


def is_split(path: Path) -> bool:
    """Whether a folder is a program that is split."""
    return (path / SPLIT).is_file()


def load_split(path: Path | str) -> "LoadedSplit":
    """Load each module onto its device.

    Raises:
        ModuleError: the manifest is damaged, or a module is another one.
        And what `edgec.runtime.load` raises.
    """
    folder = Path(path)
    try:
        value = json.loads(read_bytes(folder / SPLIT))
        if value["schema"] != _SCHEMA:
            raise ModuleError(
                f"{folder / SPLIT} has schema {value['schema']}, this edgec reads {_SCHEMA}",
                hint="split the program again",
            )
        signature = Signature.from_json(value["signature"])
        outputs = tuple(map(int, value["outputs"]))
        steps = tuple(_step(step) for step in value["steps"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModuleError(
            f"{folder / SPLIT} is damaged: {error!r}", hint="split the program again"
        ) from error
    known = set(range(len(signature.inputs)))
    for step in steps:
        if not set(step.inputs) <= known:
            raise ModuleError(f"{folder / SPLIT} is damaged: {step.module} comes too early")
        known |= set(step.outputs)
    if not set(outputs) <= known:
        raise ModuleError(f"{folder / SPLIT} is damaged: nobody makes what it gives")
    with ExitStack() as stack:
        modules = []
        for step in steps:
            module = Module.read(folder / step.module)
            if module.digest != step.digest:
                raise ModuleError(
                    f"{module.path} is not the module that {folder / SPLIT} speaks of",
                    hint="split the program again, and copy the folder as a whole",
                )
            modules.append(stack.enter_context(load(module, device=step.device)))
        stack.pop_all()
    return LoadedSplit(
        path=folder, signature=signature, steps=steps, outputs=outputs, modules=modules
    )


def _step(value: Mapping[str, Any]) -> SplitStep:
    return SplitStep(
        module=str(value["module"]),
        digest=str(value["digest"]),
        device=str(value["device"]),
        inputs=tuple(map(int, value["inputs"])),
        outputs=tuple(map(int, value["outputs"])),
    )


class LoadedSplit(Closing):
    """A split program on its devices: a function from arrays in the host's memory to such.

    Attributes:
        path: the folder.
        signature: of the whole.
        steps: in the order in which they are made.
    """

    def __init__(
        self,
        *,
        path: Path,
        signature: Signature,
        steps: Sequence[SplitStep],
        outputs: Sequence[int],
        modules: Sequence[LoadedModule],
    ) -> None:
        self.path = path
        self.signature = signature
        self.steps = tuple(steps)
        self._outputs = tuple(outputs)
        self._modules = tuple(modules)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; results nested as the model returned them.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        return self.signature.call(self.call_flat, args, kwargs)

    def call_flat(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """Call it with flat inputs in the signature's order; flat outputs.

        Raises:
            InputError: wrong count, or an argument has the wrong shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        self.signature.refuse_other_count(len(leaves))
        values: dict[int, Any] = dict(enumerate(leaves))
        for step, module in zip(self.steps, self._modules, strict=True):
            (name,) = module.signatures
            made = module[name].call_flat([values[number] for number in step.inputs])
            for number, array in zip(step.outputs, made, strict=True):
                values[number] = array.numpy()
        return [np.array(values[number]) for number in self._outputs]

    def check(self, golden: Golden, tolerance: Tolerance | None = None) -> GoldenResult:
        """Make golden calls of the whole, and compare every answer.

        Raises:
            DeviceError: a device failed.
        """
        names = tuple(spec.name for spec in self.signature.outputs)
        return GoldenResult(
            calls=tuple(
                CallResult(
                    signature=call.signature,
                    names=names,
                    outputs=compare_call(call, self.call_flat(call.inputs), tolerance),
                )
                for call in golden.calls
            )
        )

    def close(self) -> None:
        """Let go of the modules. Closing twice is fine."""
        for module in self._modules:
            module.close()

    def __repr__(self) -> str:
        places = ", ".join(step.device for step in self.steps)
        return f"<LoadedSplit {self.path}: {self.signature} on {places}>"
