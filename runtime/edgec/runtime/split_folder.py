"""A folder of modules for several devices of one machine, read and written, not loaded.

Its manifest says which steps there are, which values each takes and gives, and on which of the
devices it can be made: one, or several, each with a module of its own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.errors import ModuleError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.module import Module
from edgec.runtime.signature import Signature

__all__ = ["SPLIT", "Place", "SplitFolder", "SplitStep", "is_split", "write_split"]

SPLIT = "split.json"
"""What makes a folder a program that is split: which module is called where, with what."""

_SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class Place:
    """A module on a device.

    Attributes:
        module: the file in the folder.
        digest: the module's, so that no other one takes its place.
        device: the number of the device among the folder's.
    """

    module: str
    digest: str
    device: int


@dataclass(frozen=True, kw_only=True)
class SplitStep:
    """A part of the program.

    Attributes:
        places: where it can be made; a call goes to one of them, several calls to all.
        inputs: the numbers of the values it takes; the whole function's inputs come first.
        outputs: the numbers of those it gives.
    """

    places: tuple[Place, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SplitFolder:
    """A program that is split.

    Attributes:
        path: the folder.
        signature: of the whole.
        devices: a URI for each; alike ones may be named several times.
        steps: in the order in which a call goes through them.
        outputs: the numbers of the values that the whole gives.
        in_flight: how many calls of a stream are under way at once; 1 for one after the other.
    """

    path: Path
    signature: Signature
    devices: tuple[str, ...]
    steps: tuple[SplitStep, ...]
    outputs: tuple[int, ...]
    in_flight: int

    @classmethod
    def read(cls, path: Path | str) -> "SplitFolder":
        """Read the manifest, and see that it makes sense.

        Raises:
            FileError: it is missing.
            ModuleError: it is damaged, or of another schema.
        """
        manifest = Path(path) / SPLIT
        try:
            value = json.loads(read_bytes(manifest))
            if value["schema"] != _SCHEMA:
                raise ModuleError(
                    f"{manifest} has schema {value['schema']}, this edgec reads {_SCHEMA}",
                    hint="split the program again",
                )
            found = cls(
                path=Path(path),
                signature=Signature.from_json(value["signature"]),
                devices=tuple(map(str, value["devices"])),
                steps=tuple(_step(step) for step in value["steps"]),
                outputs=tuple(map(int, value["outputs"])),
                in_flight=int(value["in_flight"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModuleError(
                f"{manifest} is damaged: {error!r}", hint="split the program again"
            ) from error
        why = _misfit(found)
        if why:
            raise ModuleError(f"{manifest} is damaged: {why}", hint="split the program again")
        return found

    def module(self, place: Place) -> Module:
        """The module of a place.

        Raises:
            ModuleError: it is another one than the manifest speaks of, or damaged.
        """
        module = Module.read(self.path / place.module)
        if module.digest != place.digest:
            raise ModuleError(
                f"{module.path} is not the module that {self.path / SPLIT} speaks of",
                hint="split the program again, and copy the folder as a whole",
            )
        return module


def write_split(folder: SplitFolder) -> None:
    """Write the manifest of a split program into its folder.

    Raises:
        FileError: it cannot be written.
    """
    value = {
        "schema": _SCHEMA,
        "signature": folder.signature.to_json(),
        "devices": list(folder.devices),
        "in_flight": folder.in_flight,
        "outputs": list(folder.outputs),
        "steps": [
            {
                "places": [
                    {"module": place.module, "digest": place.digest, "device": place.device}
                    for place in step.places
                ],
                "inputs": list(step.inputs),
                "outputs": list(step.outputs),
            }
            for step in folder.steps
        ],
    }
    with write_atomically(folder.path / SPLIT) as stream:
        stream.write(json.dumps(value, indent=1).encode())


def is_split(path: Path) -> bool:
    """Whether a folder is a program that is split."""
    return (path / SPLIT).is_file()


def _step(value: Mapping[str, Any]) -> SplitStep:
    return SplitStep(
        places=tuple(
            Place(
                module=str(place["module"]),
                digest=str(place["digest"]),
                device=int(place["device"]),
            )
            for place in value["places"]
        ),
        inputs=_numbers(value["inputs"]),
        outputs=_numbers(value["outputs"]),
    )


def _numbers(value: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(int, value))


def _misfit(folder: SplitFolder) -> str:
    """Why the steps cannot be made in their order; empty where they can."""
    known = set(range(len(folder.signature.inputs)))
    for number, step in enumerate(folder.steps, 1):
        if not step.places:
            return f"step {number} is made nowhere"
        if any(not 0 <= place.device < len(folder.devices) for place in step.places):
            return f"step {number} names a device that there is not"
        if not set(step.inputs) <= known:
            return f"step {number} comes too early"
        known |= set(step.outputs)
    if folder.in_flight < 1:
        return f"{folder.in_flight} calls are under way"
    return "" if set(folder.outputs) <= known else "nobody makes what it gives"
