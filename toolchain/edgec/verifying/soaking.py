"""The same calls again and again, alone, from threads, beside other work: bits that change.

A race, memory that is used too early and a sum whose order depends on who comes first show so, and
in no single call.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import EdgecError, WrongAnswer
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.module import Module

__all__ = ["Change", "Soaked", "changes", "soak"]

_Array = np.ndarray[Any, np.dtype[Any]]
_Calls = Sequence[tuple[str, tuple[_Array, ...]]]
_Answers = list[list[_Array]]


@dataclass(frozen=True, kw_only=True)
class Change:
    """An output whose bits were others than in the first round.

    Attributes:
        way: how the calls were made.
        round: which round, the first being 0.
        call: which call of it.
        function: its function.
        output: the output's name.
        count: how many numbers differ.
        at: the first of them, in the flat output.
        first, now: what it was, and what it is.
    """

    way: str
    round: int
    call: int
    function: str
    output: str
    count: int
    at: int
    first: str
    now: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What came of it.

    Attributes:
        rounds: how many there were, by how they were made.
        change: the first change that was seen; None where there was none.
    """

    rounds: dict[str, int]
    change: Change | None

    def failure(self, subject: str) -> WrongAnswer | None:
        """The error that names the output that changes; None where none does."""
        found = self.change
        if found is None:
            return None
        return WrongAnswer(
            f"{subject} gives {found.output} of {found.function} other bits {found.way} in round "
            f"{found.round + 1} than in the first: {found.count} numbers differ, the first at "
            f"{found.at} is {found.now} and was {found.first}",
            hint="call it on one thread (--device=cpu?threads=1), or on another runtime "
            "(--device=local-task), to find who is at fault",
        )


def soak(
    module: Module,
    calls: _Calls,
    *,
    device: str | None,
    weights: Path | str | None,
    rounds: int,
    threads: int = 4,
) -> Soaked:
    """Make the calls `rounds` times in each way, each round on fresh state.

    Args:
        module: the module.
        calls: functions and inputs, in order.
        device: where; None for what the module was compiled for.
        weights: its weights file, where it is not where the module says.
        rounds: how often.
        threads: how many call at the same time, each a module of its own.

    Raises:
        EdgecError: see `edgec.runtime.load`, and what a call raises.
    """
    made: dict[str, int] = {}
    with load(module, device=device, weights=weights) as loaded:
        first = _round(loaded, calls)

        def alone(way: str) -> Change | None:
            for number in range(rounds):
                made[way] = number + 1
                found = changes(module, calls, first, _round(loaded, calls), way, number)
                if found is not None:
                    return found
            return None

        change = alone("alone")
        if change is None:
            way = f"from {threads} threads"
            found, made[way] = _from_threads(
                module, calls, first, device, weights, rounds, threads, way
            )
            change = found
        if change is None:
            with _other_work(threads):
                change = alone("beside other work")
    return Soaked(rounds=made, change=change)


def changes(
    module: Module, calls: _Calls, first: _Answers, now: _Answers, way: str, number: int
) -> Change | None:
    """The first output of a round whose bits are others than those of the first round."""
    for place, ((function, _), old, new) in enumerate(zip(calls, first, now, strict=True)):
        specs = module.signatures[function].outputs
        for spec, one, other in zip(specs, old, new, strict=True):
            same = one.shape == other.shape and one.tobytes() == other.tobytes()
            if same:
                continue
            differs = np.ones(1, bool)
            if one.shape == other.shape:
                pairs = [
                    np.ascontiguousarray(each).reshape(-1).view(np.uint8).reshape(each.size, -1)
                    for each in (one, other)
                ]
                differs = (pairs[0] != pairs[1]).any(1)
            at = int(np.argmax(differs))
            return Change(
                way=way,
                round=number,
                call=place,
                function=function,
                output=spec.name,
                count=int(differs.sum()),
                at=at,
                first=str(one.reshape(-1)[at]),
                now=str(other.reshape(-1)[at]),
            )
    return None


def _round(loaded: LoadedModule, calls: _Calls) -> _Answers:
    loaded.reset()
    return [
        [np.array(each.numpy()) for each in loaded[name].call_flat(inputs)]
        for name, inputs in calls
    ]


def _from_threads(
    module: Module,
    calls: _Calls,
    first: _Answers,
    device: str | None,
    weights: Path | str | None,
    rounds: int,
    threads: int,
    way: str,
) -> tuple[Change | None, int]:
    """Threads that share nothing but the device; the first change, and how many rounds there were.

    Raises:
        EdgecError: what a thread raised.
    """
    found: list[Change] = []
    failed: list[EdgecError] = []
    counts = [0] * threads
    begin = threading.Barrier(threads)

    def work(place: int) -> None:
        try:
            with load(module, device=device, weights=weights) as loaded:
                begin.wait(60)
                for number in range(-(-rounds // threads)):
                    if found or failed:
                        return
                    counts[place] += 1
                    change = changes(module, calls, first, _round(loaded, calls), way, number)
                    if change is not None:
                        found.append(change)
        except EdgecError as error:
            failed.append(error)
            begin.abort()
        except threading.BrokenBarrierError:
            return

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return next(iter(found), None), sum(counts)


@contextmanager
def _other_work(threads: int) -> Iterator[None]:
    """Keep this machine's processors busy with products of matrices, as long as this lasts."""
    stop = threading.Event()

    def work() -> None:
        matrix = np.ones((192, 192), np.float32)
        while not stop.is_set():
            matrix @ matrix

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()
