"""A module and edgert on a device, to call and to measure there; nothing stays when it is over."""

import itertools
import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.ondevice.arrays import read_results, write_inputs
from edgec.ondevice.edgert_command import edgert_command
from edgec.ondevice.failures import failure
from edgec.ondevice.fits import check_fits, check_machine, choose_machine, features_to_ask
from edgec.ondevice.machines import Machine
from edgec.ondevice.surroundings import SCRIPT, Surroundings, Temperature, read_surroundings
from edgec.ondevice.transport import Transport
from edgec.runtime.dispatch_times import Dispatch, Profile
from edgec.runtime.errors import DeviceError, FileError, UsageError
from edgec.runtime.module import Module
from edgec.runtime.parameters import weights_path
from edgec.runtime.signature import Signature

__all__ = ["Called", "Deployment", "Measured", "Place", "deploy"]

_PROGRAM = "edgert"
_RESULTS = "out.npz"
_RUNNER = "run.sh"
# The runner becomes edgert, so that `pid` is edgert's own: whoever cleans up can end it.
_RUN = f"sh {_RUNNER}; code=$?; rm -f pid; exit $code"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a module runs.

    Attributes:
        name: how the device was named, in full (`adb:0123456789`).
        model: what it calls itself.
        machine: what the module runs as (`arm_64`).
    """

    name: str
    model: str
    machine: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"name": self.name, "model": self.model, "machine": self.machine}


@dataclass(frozen=True, kw_only=True)
class Called:
    """The outputs of every call, the seconds that all of them took, on how many threads."""

    results: list[list[np.ndarray]]
    seconds: float
    threads: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What edgert measured: times in seconds, memory in bytes.

    Attributes:
        load, first: loading, and the first call.
        minimum, mean, p50, p90, p99: of the calls after it.
        calls: how many these were.
        throughput: calls a second.
        threads: that computed.
        peak: the most memory that edgert ever had.
        governors: of the CPUs, each once; empty where the device does not tell.
        temperature: before and after; None where the device does not tell.
    """

    load: float
    first: float
    minimum: float
    mean: float
    p50: float
    p90: float
    p99: float
    calls: int
    throughput: float
    threads: int
    peak: int
    governors: tuple[str, ...]
    temperature: Temperature | None


class Deployment:
    """A module that is on a device. Made by `deploy`.

    Attributes:
        module: the module.
        place: where it is.
    """

    def __init__(
        self,
        *,
        module: Module,
        place: Place,
        transport: Transport,
        options: Sequence[str],
        scratch: Path,
    ) -> None:
        self.module = module
        self.place = place
        self._transport = transport
        self._options = tuple(options)
        self._scratch = scratch

    def call(self, signature: Signature, calls: Sequence[Sequence[np.ndarray]]) -> Called:
        """Call a function once for each set of inputs, in order, state carried on.

        Calls of equal shapes are made by one edgert, those of other shapes by the next.

        Raises:
            UsageError: the shapes differ, and state would have to be carried from one to another.
            DeviceError: the device or edgert on it failed.
            ModuleMismatch: edgert refuses the module.
            FileError: inputs or outputs do not fit on this machine's disk.
        """
        alike = [list(group) for _, group in itertools.groupby(calls, _shapes)]
        if len(alike) > 1 and self.module.facts.states:
            raise UsageError(
                f"{signature.name} keeps state between calls, and these have inputs of several "
                f"shapes, which edgert on {self.place.name} takes apart",
                hint="make calls of one shape at a time",
            )
        made = [self._call_alike(signature, group) for group in alike]
        return Called(
            results=[result for called in made for result in called.results],
            seconds=sum(called.seconds for called in made),
            threads=made[0].threads,
        )

    def _call_alike(self, signature: Signature, calls: Sequence[Sequence[np.ndarray]]) -> Called:
        words = self._push_inputs(calls)
        if len(calls) > 1:
            words.append("--each")
        figures = self._edgert("run", signature, [*words, f"--output={_RESULTS}"])
        results = self._scratch / _RESULTS
        self._transport.pull(_RESULTS, results)
        return Called(
            results=read_results(results, signature.outputs, len(calls), self.place.name),
            seconds=float(figures["seconds"]),
            threads=int(figures["threads"]),
        )

    def bench(
        self,
        signature: Signature,
        inputs: Sequence[np.ndarray],
        *,
        seconds: float,
        iterations: int | None,
    ) -> Measured:
        """Call a function over and over.

        Args:
            signature: the function.
            inputs: its inputs.
            seconds: for how long.
            iterations: a number of calls instead, if not None.

        Raises:
            DeviceError: the device or edgert on it failed.
            ModuleMismatch: edgert refuses the module.
            FileError: the inputs do not fit on this machine's disk.
        """
        words = self._push_inputs([inputs])
        before = self._surroundings()
        limit = f"--seconds={seconds!r}" if iterations is None else f"--iterations={iterations}"
        figures = self._edgert("bench", signature, [*words, limit])
        after = self._surroundings()
        return Measured(
            load=float(figures["load"]),
            first=float(figures["first"]),
            minimum=float(figures["min"]),
            mean=float(figures["mean"]),
            p50=float(figures["p50"]),
            p90=float(figures["p90"]),
            p99=float(figures["p99"]),
            calls=int(figures["calls"]),
            throughput=float(figures["per_second"]),
            threads=int(figures["threads"]),
            peak=int(figures["peak"]),
            governors=after.governors,
            temperature=Temperature.between(before, after),
        )

    def profile(
        self, signature: Signature, inputs: Sequence[np.ndarray], *, calls: int = 10
    ) -> Profile:
        """Call a function, and say how long each of its kernels took there.

        Raises:
            DeviceError: the device or edgert on it failed.
            ModuleMismatch: edgert refuses the module.
            FileError: the inputs do not fit on this machine's disk.
        """
        words = self._push_inputs([inputs])
        figures = self._edgert("profile", signature, [*words, f"--iterations={calls}"])
        return Profile(
            function=signature.name,
            device=f"edgert://cpu?threads={int(figures['threads'])}",
            calls=int(figures["calls"]),
            elapsed=float(figures["seconds"]),
            dispatches=tuple(_dispatch(row) for row in figures["dispatches"]),
        )

    def _push_inputs(self, calls: Sequence[Sequence[np.ndarray]]) -> list[str]:
        files = write_inputs(calls, self._scratch)
        self._transport.push(files)
        for file in files.values():
            file.unlink()
        return [f"--input=@{name}" for name in files]

    def _edgert(self, verb: str, signature: Signature, words: Sequence[str]) -> Mapping[str, Any]:
        """Run edgert there; the figures that it prints."""
        command = [
            *(*self._transport.launcher, f"./{_PROGRAM}", verb, *self._options),
            *(f"--function={signature.name}", "--json", *words),
        ]
        # In a file: a command line would be cut where there are hundreds of inputs.
        runner = self._scratch / _RUNNER
        runner.write_text(f"echo $$ > pid\nexec {shlex.join(command)}\n")
        self._transport.push({_RUNNER: runner})
        answer = self._transport.shell(_RUN)
        if answer.code != 0:
            raise failure(answer, self.module, self.place.name, self._transport.folder)
        try:
            lines = [line for line in answer.out.splitlines() if line.startswith("{")]
            figures: Mapping[str, Any] = json.loads(lines[-1])
        except (ValueError, IndexError):
            raise DeviceError(
                f"edgert on {self.place.name} gave no figures but {answer.said.strip()[:200]!r}"
            ) from None
        return figures

    def _surroundings(self) -> Surroundings:
        return read_surroundings(self._transport.shell(SCRIPT).out)


@contextmanager
def deploy(
    module: Module,
    transport: Transport,
    *,
    weights: Path | str | None,
    threads: int | None,
    tell: Callable[[str], None],
    warn: Callable[[str], None],
    building: Callable[[str], None] | None = None,
) -> Iterator[Deployment]:
    """A module on a device; whatever was put there is removed when the block ends.

    Args:
        module: compiled for a CPU.
        transport: the way to the device.
        weights: the weights file, where it is not where the module says.
        threads: that compute; without it as many as the device has processors.
        tell: is told what happens.
        warn: is told what a person should know, such as that the device is gone with the files.
        building: is told that edgert is built, which takes up to a minute; without it `tell` is.

    Raises:
        ModuleMismatch: the module is for another machine, or for a better CPU.
        DeviceMissing: the device cannot be used.
        DeviceError: it failed, went away or has no space left.
        MissingExtra: edgert has to be built for it, and `ziglang` is missing.
        CompileError: edgert cannot be built.
        FileError: a file cannot be read or written on this machine.
        UsageError: the weights are not of a kind that edgert reads.
    """
    files = _weights(module, weights)
    facts = transport.facts()
    machine = choose_machine(module, facts)
    check_machine(module, machine, transport.name)
    program = edgert_command(machine, tell if building is None else building)
    tell(f"{transport.name} is {facts.model} ({machine.name})")
    with tempfile.TemporaryDirectory(prefix="edgec-on-") as scratch:
        try:
            transport.open()
            transport.push({_PROGRAM: program})
            _check(transport, module, machine)
            transport.push({"module.vmfb": module.path, **files})
            options = ["module.vmfb", *(f"--weights={name}" for name in files)]
            if threads is not None:
                options.append(f"--threads={threads}")
            yield Deployment(
                module=module,
                place=Place(name=transport.name, model=facts.model, machine=machine.name),
                transport=transport,
                options=options,
                scratch=Path(scratch),
            )
        finally:
            if not transport.close():
                warn(f"{transport.folder} may still be on {transport.name}")


def _shapes(inputs: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    return [array.shape for array in inputs]


def _dispatch(row: Mapping[str, Any]) -> Dispatch:
    count, total = int(row["count"]), float(row["total"])
    return Dispatch(
        name=str(row["name"]),
        where=f"{row['file']}:{row['line']}" if row["file"] else None,
        count=count,
        total=total,
        mean=total / count,
        minimum=float(row["min"]),
        maximum=float(row["max"]),
    )


def _weights(module: Module, given: Path | str | None) -> dict[str, Path]:
    """The weights file by its name there."""
    path = weights_path(module, given)
    if path is None:
        return {}
    if path.suffix not in (".safetensors", ".irpa"):
        raise UsageError(
            f"edgert does not read {path}", hint="on a device weights are .safetensors or .irpa"
        )
    if not path.is_file():
        raise FileError(f"cannot read {path}: there is no such file", hint="name it with --weights")
    return {f"weights{path.suffix}": path}


def _check(transport: Transport, module: Module, machine: Machine) -> None:
    """Let edgert say what the CPU has, and compare."""
    asked = features_to_ask(module, machine)
    words = [*transport.launcher, f"./{_PROGRAM}", "query", "hal.cpu", "cpu", *asked]
    answer = transport.shell(f"chmod 700 {_PROGRAM} && {shlex.join(words)}")
    if answer.code != 0:
        raise failure(answer, module, transport.name, transport.folder)
    pairs = (line.split() for line in answer.out.splitlines())
    known = {pair[0]: pair[1] == "1" for pair in pairs if len(pair) == 2 and pair[1] in "01"}
    check_fits(module, machine, known, transport.name)
