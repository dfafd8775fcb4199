"""A stream of calls to their answers in order, several calls under way on several devices.

Every device has a thread, and makes one step of one call at a time: of the calls that have come to
a step of its own, the oldest. So while the last device ends a call the first begins the next one,
and devices that make the same step share the calls as they become free.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Stage", "called", "streamed"]

Work = Callable[[Sequence[Any]], Sequence[np.ndarray]]
"""A step on a device: what it takes to what it gives, in the host's memory."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A step: by which devices' numbers it is made and how, and its values' numbers."""

    works: dict[int, Work]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def streamed(
    stages: Sequence[Stage],
    outputs: Sequence[int],
    calls: Iterable[Sequence[Any]],
    *,
    in_flight: int,
) -> Generator[list[np.ndarray], None, None]:
    """The answers of calls, in their order; inputs are asked for as calls end.

    Args:
        stages: in the order in which a call goes through them.
        outputs: the numbers of the values that a call gives.
        calls: flat inputs of each; they have the first numbers.
        in_flight: how many calls are begun before the oldest one's answers are taken.

    Raises:
        What a stage raises; the calls behind it are dropped.
    """
    if in_flight == 1:
        for inputs in calls:
            yield called(stages, outputs, inputs, turn=0)
        return
    flow = _Flow(stages, outputs)
    source = iter(calls)
    begun = given = 0
    more = True
    try:
        while True:
            while more and begun - given < in_flight:
                try:
                    inputs = next(source)
                except StopIteration:
                    more = False
                    break
                flow.begin(begun, inputs)
                begun += 1
            if given == begun:
                return
            answers = flow.take(given)
            given += 1
            yield answers
    finally:
        flow.close()


def called(
    stages: Sequence[Stage], outputs: Sequence[int], inputs: Sequence[Any], *, turn: int
) -> list[np.ndarray]:
    """One call in the caller's own thread, at each step on the device whose turn it is.

    Raises:
        What a stage raises.
    """
    values: dict[int, Any] = dict(enumerate(inputs))
    for stage in stages:
        works = list(stage.works.values())
        made = works[turn % len(works)]([values[number] for number in stage.inputs])
        values.update(zip(stage.outputs, made, strict=True))
    return [np.array(values[number]) for number in outputs]


class _Flow:
    """Calls on their way, and the devices' threads."""

    def __init__(self, stages: Sequence[Stage], outputs: Sequence[int]) -> None:
        self._stages = tuple(stages)
        self._outputs = tuple(outputs)
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int]] = []  # calls, and the step that each has come to
        self._values: dict[int, dict[int, Any]] = {}
        self._error: BaseException | None = None
        self._closed = False
        devices = sorted({device for stage in self._stages for device in stage.works})
        # Only those are woken who have something to do: a device for a step, the caller for a call.
        self._arrived = threading.Condition(self._lock)
        self._work = {device: threading.Condition(self._lock) for device in devices}
        self._threads = [
            threading.Thread(target=self._serve, args=(device,), name=f"device {device}")
            for device in devices
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, call: int, inputs: Sequence[Any]) -> None:
        """Let a call come to the first step."""
        with self._lock:
            self._values[call] = dict(enumerate(inputs))
            self._come(call, 0)

    def take(self, call: int) -> list[np.ndarray]:
        """Wait for a call to come to the end.

        Raises:
            What a stage raised.
        """
        end = (call, len(self._stages))
        with self._lock:
            while end not in self._waiting:
                if self._error is not None:
                    raise self._error
                self._arrived.wait()
            self._waiting.remove(end)
            values = self._values.pop(call)
        return [np.array(values[number]) for number in self._outputs]

    def close(self) -> None:
        """Let the devices end the step that each is at, and no other."""
        with self._lock:
            self._end()
        for thread in self._threads:
            thread.join()

    def _come(self, call: int, step: int) -> None:
        self._waiting.append((call, step))
        if step == len(self._stages):
            self._arrived.notify()
            return
        for device in self._stages[step].works:
            self._work[device].notify()

    def _end(self) -> None:
        self._closed = True
        for condition in (self._arrived, *self._work.values()):
            condition.notify_all()

    def _serve(self, device: int) -> None:
        while (job := self._next(device)) is not None:
            call, step = job
            stage = self._stages[step]
            try:
                values = self._values[call]
                made = stage.works[device]([values[number] for number in stage.inputs])
                values.update(zip(stage.outputs, made, strict=True))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that takes
                with self._lock:
                    self._error = self._error or error
                    self._end()
                return
            with self._lock:
                self._come(call, step + 1)

    def _next(self, device: int) -> tuple[int, int] | None:
        """The oldest call that has come to a step of this device; None when all is over."""
        with self._lock:
            while not self._closed:
                mine = [
                    (call, step)
                    for call, step in self._waiting
                    if step < len(self._stages) and device in self._stages[step].works
                ]
                if mine:
                    job = min(mine)
                    self._waiting.remove(job)
                    return job
                self._work[device].wait()
            return None
