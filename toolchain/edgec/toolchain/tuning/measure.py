"""Two modules to the ratio of their times: both in one child, in turns, so that noise hits both.

The parent's side is `compare_modules`; the child's is `run_compare`, reached by `isolate`.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgec.runtime import Device, Tolerance, check_golden, load
from edgec.runtime.benchmark import example_inputs
from edgec.runtime.cpu import architecture, host_features, missing_features
from edgec.runtime.errors import DeviceError, DeviceMissing, WrongAnswer
from edgec.runtime.fitness import driver_uri
from edgec.runtime.golden import Golden, GoldenCall
from edgec.targets import Target
from edgec.toolchain import isolate

__all__ = [
    "FASTER",
    "Measured",
    "alone",
    "compare_modules",
    "device_name",
    "record_answers",
    "run_answers",
    "run_compare",
    "run_device",
    "turns",
]

FASTER = 0.98
"""A candidate must take less than this share of the best one's time to take its place."""

_BLOCK = 0.003
_FEWEST_TURNS = 8
_HOPELESS_TURNS = 5
_HOPELESS = 1.08
_MOST_TURNS = 300
_AGREEING = 0.7
_DEVICE_TIMEOUT = 120.0
_RUN_TIMEOUT = 300.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Two modules measured in turns.

    Attributes:
        ratio: the median over the turns of the candidate's time by the base's.
        agreeing: the share of turns in which the candidate was faster.
        base, candidate: the median time of a call, in seconds.
        turns: how many there were.
    """

    ratio: float
    agreeing: float
    base: float
    candidate: float
    turns: int

    @property
    def is_faster(self) -> bool:
        """Whether the candidate is clearly faster: by the median, and in most of the turns.

        In how many, has to do with how many there were: of equal candidates, one in forty is
        faster in more than half of the turns and two standard deviations, and one in a thousand in
        three, which is enough where there are many turns.
        """
        deviation = 0.5 * self.turns**-0.5
        agreeing = max(min(_AGREEING, 0.5 + 3 * deviation), 0.5 + 2 * deviation)
        enough = self.turns >= _FEWEST_TURNS
        return enough and self.ratio < FASTER and self.agreeing >= agreeing


def device_name(target: Target, device: str | None) -> str:
    """What the driver calls the device that runs a target's modules.

    Args:
        target: what is compiled for.
        device: a URI; the target's driver without.

    Raises:
        DeviceMissing: it is not here, or another one is.
    """
    if target.cpu is not None and target.isa != architecture():
        raise DeviceMissing(
            f"{target.name} is for {target.isa}, and this machine, which would measure, is "
            f"{architecture()}",
            hint="measure where the device is, or choose --target=cpu",
        )
    missing = missing_features(target.required_features, host_features())
    if target.cpu is not None and missing:
        raise DeviceMissing(
            f"{target.name} needs a processor with {', '.join(missing)}, not this one",
            hint="measure where the device is, or choose --target=cpu",
        )
    reply = isolate.call(
        "device",
        {
            "uri": device or driver_uri(target.driver),
            "words": list(target.gpu.devices) if target.gpu else [],
        },
        subject=target.name,
        timeout=_DEVICE_TIMEOUT,
        died=lambda how: DeviceError(
            f"opening a {target.driver} device {how}", hint="run `edgec doctor`"
        ),
    )
    return str(reply)


def record_answers(
    module: Path, output: Path, *, device: str, weights: Path | None, timeout: float = _RUN_TIMEOUT
) -> None:
    """Write what every function of a module answers to example inputs, as golden answers.

    Raises:
        EdgecError: the module does not load or run.
    """
    isolate.call(
        "answers",
        {
            "module": str(module),
            "output": str(output),
            "device": device,
            "weights": None if weights is None else str(weights),
        },
        subject=str(module),
        timeout=timeout,
        died=lambda how: DeviceError(f"running the program as it is {how}"),
    )


def compare_modules(
    base: Path,
    candidate: Path,
    golden: Path,
    *,
    function: str,
    device: str,
    weights: Path | None,
    seconds: float,
    tolerance: Tolerance | None = None,
    timeout: float = _RUN_TIMEOUT,
) -> Measured:
    """Check a candidate's answers, then measure it and the base in turns.

    Args:
        base: the module to beat.
        candidate: the other one.
        golden: answers that the candidate must give, and inputs to measure with.
        function: what to call.
        device: the URI of the device, for both.
        weights: their weights file, if they keep them outside.
        seconds: how long to measure at most; a hopeless candidate takes less.
        tolerance: how far answers may be off; None for each type's default.
        timeout: seconds after which the child is killed.

    Raises:
        WrongAnswer: the candidate's answers are off.
        DeviceError: it failed, died or hung.
        EdgecError: it does not load.
    """
    reply = isolate.call(
        "compare",
        {
            "base": str(base),
            "candidate": str(candidate),
            "golden": str(golden),
            "function": function,
            "device": device,
            "weights": None if weights is None else str(weights),
            "seconds": seconds,
            "tolerance": None if tolerance is None else asdict(tolerance),
        },
        subject=str(candidate),
        timeout=timeout,
        died=lambda how: DeviceError(f"running it {how}"),
    )
    return Measured(**reply)


def run_device(arguments: Mapping[str, Any]) -> str:
    """The child's part of `device_name`."""
    device = Device.open(str(arguments["uri"]))
    words = arguments["words"]
    if words and not any(word in device.name.lower() for word in words):
        raise DeviceMissing(
            f"the {device.driver} device here is {device.name}, which the target is not for",
            hint="tune where the device is, or choose the target of the device that is here",
        )
    return device.name


def run_answers(arguments: Mapping[str, Any]) -> None:
    """The child's part of `record_answers`."""
    calls = []
    with load(
        Path(arguments["module"]), device=arguments["device"], weights=arguments["weights"]
    ) as module:
        for name, signature in module.signatures.items():
            inputs = example_inputs(signature)
            outputs = [output.numpy() for output in module[name].call_flat(inputs)]
            calls.append(GoldenCall(signature=name, inputs=tuple(inputs), outputs=tuple(outputs)))
    Golden(calls=tuple(calls)).save(Path(arguments["output"]))


def run_compare(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The child's part of `compare_modules`."""
    golden = Golden.load(Path(arguments["golden"]))
    tolerance = arguments["tolerance"]
    name = str(arguments["function"])
    weights = arguments["weights"]
    seconds = float(arguments["seconds"])
    with (
        load(
            Path(arguments["candidate"]), device=str(arguments["device"]), weights=weights
        ) as candidate,
        load(Path(arguments["base"]), device=candidate.device, weights=weights) as base,
    ):
        allowed = None if tolerance is None else Tolerance(**tolerance)
        result = check_golden(candidate, golden, allowed)
        if not result.ok and result.worst is not None:
            function, output, comparison = result.worst
            raise WrongAnswer(f"{output} of {function}: {comparison.problem}")
        inputs = next((call.inputs for call in golden.calls if call.signature == name), None)
        if inputs is None:
            inputs = tuple(example_inputs(candidate.signatures[name]))
        leaves = [candidate.device.put(leaf) for leaf in inputs]
        if arguments["base"] == arguments["candidate"]:
            return asdict(alone(lambda: base[name].call_flat(leaves), seconds=seconds))
        measured = turns(
            lambda: base[name].call_flat(leaves),
            lambda: candidate[name].call_flat(leaves),
            seconds=seconds,
        )
    return asdict(measured)


def alone(
    call: Callable[[], object], *, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Measured:
    """How long something takes, beside itself: nothing is to be compared."""
    first = min(_seconds_of(call, 3, clock))
    count = max(3, min(_MOST_TURNS, int(seconds / max(first, 1e-9))))
    median = statistics.median(_seconds_of(call, count, clock))
    return Measured(ratio=1.0, agreeing=0.0, base=median, candidate=median, turns=count)


def turns(
    base: Callable[[], object],
    candidate: Callable[[], object],
    *,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Call two things in turns, a few milliseconds each, the first one changing.

    Ends after `seconds`, but not before a few turns; sooner where the candidate is hopeless.
    """
    end = clock() + seconds
    first = min(_seconds_of(base, 3, clock))
    _seconds_of(candidate, 3, clock)
    calls = max(1, math.ceil(_BLOCK / max(first, 1e-9)))
    times: tuple[list[float], list[float]] = ([], [])
    ratios: list[float] = []
    while len(ratios) < _MOST_TURNS and (clock() < end or len(ratios) < _FEWEST_TURNS):
        one, other = (0, 1) if len(ratios) % 2 == 0 else (1, 0)
        for which in (one, other):
            call = candidate if which else base
            times[which].append(statistics.median(_seconds_of(call, calls, clock)))
        ratios.append(times[1][-1] / max(times[0][-1], 1e-12))
        if len(ratios) >= _HOPELESS_TURNS and _is_hopeless(ratios):
            break
    return Measured(
        ratio=statistics.median(ratios),
        agreeing=sum(ratio < 1 for ratio in ratios) / len(ratios),
        base=statistics.median(times[0]),
        candidate=statistics.median(times[1]),
        turns=len(ratios),
    )


def _seconds_of(call: Callable[[], object], count: int, clock: Callable[[], float]) -> list[float]:
    found = []
    for _ in range(count):
        start = clock()
        call()
        found.append(clock() - start)
    return found


def _is_hopeless(ratios: Sequence[float]) -> bool:
    return statistics.median(ratios) > _HOPELESS and sum(r < 1 for r in ratios) <= len(ratios) // 5
