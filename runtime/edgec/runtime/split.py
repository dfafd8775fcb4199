"""A folder of modules for several devices of one machine to one function over all of them.

A call goes through the modules one after the other, each on its device; what one gives and another
takes is handed over in the host's memory. Of a stream of calls several are under way at once.
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.closing import Closing
from edgec.runtime.comparison import CallResult, Comparison, GoldenResult, compare_call
from edgec.runtime.errors import UsageError
from edgec.runtime.golden import Golden
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.signature import Signature
from edgec.runtime.split_folder import SPLIT, SplitFolder, is_split
from edgec.runtime.stream import Stage, called, streamed
from edgec.runtime.tolerance import Tolerance

__all__ = ["SPLIT", "LoadedSplit", "is_split", "load_split"]


def load_split(path: Path | str) -> "LoadedSplit":
    """Load each module onto its devices.

    Raises:
        ModuleError: the manifest is damaged, or a module is another one.
        And what `edgec.runtime.load` raises.
    """
    folder = SplitFolder.read(path)
    with ExitStack() as stack:
        modules = [
            {
                place.device: stack.enter_context(
                    load(folder.module(place), device=folder.devices[place.device])
                )
                for place in step.places
            }
            for step in folder.steps
        ]
        stack.pop_all()
    return LoadedSplit(folder=folder, modules=modules)


class LoadedSplit(Closing):
    """A split program on its devices: a function from arrays in the host's memory to such.

    Attributes:
        folder: where it came from.
        signature: of the whole.
    """

    def __init__(
        self, *, folder: SplitFolder, modules: Sequence[Mapping[int, LoadedModule]]
    ) -> None:
        self.folder = folder
        self.signature: Signature = folder.signature
        self._modules = [module for each in modules for module in each.values()]
        self._stages = [
            Stage(
                works={device: _work(module) for device, module in each.items()},
                inputs=step.inputs,
                outputs=step.outputs,
            )
            for step, each in zip(folder.steps, modules, strict=True)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """Why something does not run as the devices' names say, each once."""
        return tuple(dict.fromkeys(module.note for module in self._modules if module.note))

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
        return self._called(leaves, 0)

    def stream(
        self, calls: Iterable[Sequence[Any]], *, in_flight: int | None = None
    ) -> Generator[list[np.ndarray], None, None]:
        """The flat outputs of many calls in their order, with several of them under way at once.

        Inputs are taken from `calls` as there is room for them. Threads live until the iterator
        ends or is closed.

        Args:
            calls: flat inputs of each call, in the signature's order.
            in_flight: how many calls are under way; None for what the folder says.

        Raises:
            UsageError: fewer than one.
            InputError: wrong count, or an argument has the wrong shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        count = self.folder.in_flight if in_flight is None else in_flight
        if count < 1:
            raise UsageError(f"{count} calls under way give no answers", hint="let it be 1 or more")
        return streamed(
            self._stages, self.folder.outputs, map(self._counted, calls), in_flight=count
        )

    def check(self, golden: Golden, tolerance: Tolerance | None = None) -> GoldenResult:
        """Make golden calls of the whole, and compare every answer.

        Each module is called once at least, and where the folder is for streams the calls go
        through as one, too. Of all answers of a call, the one that is furthest off is given.

        Raises:
            DeviceError: a device failed.
        """
        names = tuple(spec.name for spec in self.signature.outputs)
        widest = max(len(stage.works) for stage in self._stages)
        answers = [
            [self._called(call.inputs, turn) for turn in range(widest)] for call in golden.calls
        ]
        if self.folder.in_flight > 1:
            many = max(1, 2 * self.folder.in_flight // max(1, len(golden.calls)))
            stream = self.stream(call.inputs for _ in range(many) for call in golden.calls)
            for place, answer in zip(itertools.cycle(answers), stream, strict=False):
                place.append(answer)
        return GoldenResult(
            calls=tuple(
                CallResult(
                    signature=call.signature,
                    names=names,
                    outputs=_furthest([compare_call(call, each, tolerance) for each in found]),
                )
                for call, found in zip(golden.calls, answers, strict=True)
            )
        )

    def _counted(self, leaves: Sequence[Any]) -> Sequence[Any]:
        self.signature.refuse_other_count(len(leaves))
        return leaves

    def _called(self, leaves: Sequence[Any], turn: int) -> list[np.ndarray]:
        return called(self._stages, self.folder.outputs, self._counted(leaves), turn=turn)

    def close(self) -> None:
        """Let go of the modules. Closing twice is fine."""
        for module in self._modules:
            module.close()

    def __repr__(self) -> str:
        places = ", ".join(self.folder.devices)
        return f"<LoadedSplit {self.folder.path}: {self.signature} on {places}>"


def _work(module: LoadedModule) -> Callable[[Sequence[Any]], list[np.ndarray]]:
    (name,) = module.signatures
    function = module[name]
    return lambda given: [array.numpy() for array in function.call_flat(given)]


def _furthest(found: Sequence[Sequence[Comparison]]) -> tuple[Comparison, ...]:
    """For each output the comparison of all that is worst."""
    return tuple(
        max(of_one, key=lambda each: (not each.ok, each.max_abs))
        for of_one in zip(*found, strict=True)
    )
