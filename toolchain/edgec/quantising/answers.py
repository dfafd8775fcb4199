"""Answers of a quantised program to how far they are from others, and to golden ones of its own."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgec.runtime.comparison import compare
from edgec.runtime.errors import ProgramError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.computed import answered
from edgec.toolchain.program import Dialect, Program, ProgramInfo

__all__ = [
    "Answers",
    "answers_of",
    "calls_within",
    "distance",
    "measurable",
    "without_slack",
]

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a program gives.

    Attributes:
        golden: the calls with its answers.
        states: what it remembers after the last call, where that is floats.
        seconds: what each call took.
    """

    golden: Golden
    states: Mapping[str, _Array] = field(default_factory=dict)
    seconds: tuple[float, ...] = ()


def measurable(program: Program, calls: int) -> Golden:
    """The first golden calls of a program that can be rounded, to measure an error with.

    Raises:
        ProgramError: it has none, or is not in StableHLO.
    """
    if program.golden is None or not program.golden.calls:
        raise ProgramError(
            f"{program.path or program.name} has no golden answers to measure an error with",
            hint="export the model with edgec, which records them",
        )
    if program.info.dialect is not Dialect.STABLEHLO:
        raise ProgramError(
            f"numbers are rounded in StableHLO, and this is {program.info.dialect.value}",
            hint="export the model again with this version of edgec",
        )
    return Golden(calls=program.golden.calls[:calls])


def answers_of(
    module: Any,
    info: ProgramInfo,
    weights: Mapping[str, _Array],
    golden: Golden,
    instead: Mapping[Any, _Array] | None = None,
) -> Answers:
    """The answers that NumPy gives, and what is left when it has; as `computed.answered`."""
    ends = [time.perf_counter()] * (len(golden.calls) + 1)

    def seen(call: int, *_: Any) -> None:
        ends[call + 1 :] = [time.perf_counter()] * (len(golden.calls) - call)

    states: dict[str, _Array] = {}
    found = answered(module, info, weights, golden, instead, seen, states)
    return Answers(
        golden=found,
        states={name: array for name, array in states.items() if array.dtype.kind == "f"},
        seconds=tuple(end - start for start, end in itertools.pairwise(ends)),
    )


def distance(found: Answers, wanted: Answers) -> float:
    """How far answers are from others: the output that is furthest, as a part of its spread.

    Of floats that is the root mean square of the differences, of the call where it is largest; of
    others the share that differs, over all calls of a function. Where no answer is of floats, as
    with tokens, most errors change none of them: then what the program remembers counts, too.
    """
    calls = list(zip(found.golden.calls, wanted.golden.calls, strict=True))
    wrong: dict[tuple[str, int], list[int]] = {}
    floats: list[float] = []
    for call, other in calls:
        for number, (one, right) in enumerate(zip(call.outputs, other.outputs, strict=True)):
            if right.dtype.kind in "biu":
                counts = wrong.setdefault((call.signature, number), [0, 0])
                counts[0] += int((one != right).sum())
                counts[1] += right.size
            else:
                floats.append(compare(one, right).error)
    shares = (differing / max(count, 1) for differing, count in wrong.values())
    remembered = [] if floats else _of_states(found.states, wanted.states)
    return max(0.0, *floats, *shares, *remembered)


def _of_states(found: Mapping[str, _Array], wanted: Mapping[str, _Array]) -> Iterator[float]:
    """How far each state is from another."""
    for name, right in wanted.items():
        if name in found:
            yield compare(found[name].astype(np.float32), right.astype(np.float32)).error


def calls_within(seconds: float, took: Sequence[float], golden: Golden) -> int:
    """How many calls, from the first on, take no longer; of each function one at least."""
    names = [call.signature for call in golden.calls]
    least = max(names.index(name) for name in set(names)) + 1
    count, total = 0, 0.0
    for each in took:
        total += each
        if total > seconds and count >= least:
            break
        count += 1
    return count


def without_slack(calls: Sequence[GoldenCall]) -> tuple[GoldenCall, ...]:
    """Calls whose answers are one computation's: what the framework left open is open no more."""
    return tuple(replace(call, within=(), open=(), others=()) for call in calls)
