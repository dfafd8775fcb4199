"""What one device of a mesh does in a call, step by step, and two ways for all devices to do it."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from edgec.runtime.array import DeviceArray
from edgec.runtime.loaded import LoadedModule
from edgec.runtime.mesh.channel import Channel, Value, host_array
from edgec.runtime.mesh.collectives import collect
from edgec.runtime.mesh.plan import Call, Collective, Route

__all__ = ["in_turns", "last_uses", "walk", "with_channel"]

Walk = Generator[tuple[Collective, Value], Any, list[Value]]
"""Asks for each collective with the device's own array; ends with the route's outputs."""


def last_uses(route: Route) -> tuple[tuple[int, ...], ...]:
    """For each step, the values that nobody needs behind it."""
    kept = {value for value, _ in route.outputs}
    found: list[tuple[int, ...]] = []
    for step in reversed(route.steps):
        used = step.inputs if isinstance(step, Call) else (step.input,)
        made = step.outputs if isinstance(step, Call) else (step.output,)
        gone = tuple(dict.fromkeys(v for v in (*used, *made) if v not in kept))
        kept.update(gone)
        found.append(gone)
    return tuple(reversed(found))


def walk(
    route: Route,
    module: LoadedModule,
    number: DeviceArray,
    inputs: Mapping[int, Value],
    last: Sequence[Sequence[int]],
) -> Walk:
    """Go through a route on one device.

    Args:
        route: what to do.
        module: the parts, with this device's weights.
        number: the device's, a u32 on it.
        inputs: its shard of each input.
        last: what `last_uses` says.

    Raises:
        DeviceError: the device failed.
    """
    values: dict[int, Value] = dict(inputs)
    for step, gone in zip(route.steps, last, strict=True):
        if isinstance(step, Call):
            given: list[Value] = [values[value] for value in step.inputs]
            if step.numbered:
                given.append(number)
            made = module[step.function].call_flat(given)
            values.update(zip(step.outputs, made, strict=True))
            del given, made
        else:
            values[step.output] = yield step, values[step.input]
        for value in gone:
            values.pop(value, None)
    return [values[value] for value, _ in route.outputs]


def with_channel(going: Walk, number: int, channel: Channel) -> list[Value]:
    """One device's walk, in a thread of its own; the others speak through the same channel.

    Raises:
        Silenced: another device failed.
        DeviceError: this one did.
    """
    try:
        step, value = next(going)
        while True:
            step, value = going.send(channel.collect(step, number, value))
    except StopIteration as done:
        made: list[Value] = done.value
        return made


def in_turns(walks: Sequence[Walk]) -> list[list[Value]]:
    """All devices' walks, one device after the other between two collectives.

    Raises:
        DeviceError: a device failed.
    """
    given: list[Any] = [None] * len(walks)
    while True:
        asked: list[tuple[Collective, Value]] = []
        outputs: list[list[Value]] = []
        for going, value in zip(walks, given, strict=True):
            try:
                asked.append(going.send(value))
            except StopIteration as done:
                outputs.append(done.value)
        if not asked:
            return outputs
        given = list(collect(asked[0][0], [host_array(value) for _, value in asked]))
