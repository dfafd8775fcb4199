"""A way whose arrays come from, and go to, other devices than those that compute with them.

Programs are cut for devices in the order of one mesh (`edgec.exporters.mesh.one_mesh`); an array
that is cut along a mesh with another order changes its devices before the first step, or behind the
last.
"""

from collections.abc import Sequence
from dataclasses import replace

from edgec.exporters.mesh.ways import Step, Way
from edgec.runtime.mesh.plan import Collective

__all__ = ["in_places"]


def in_places(way: Way, placed: Sequence[Sequence[int]]) -> Way:
    """The same way, between permutations of its inputs' and outputs' parts.

    Args:
        way: what the devices do.
        placed: of each input and then each output, which device has the part of the mesh's first,
            second, ... device; nothing where each has its own.
    """
    free = max([way.inputs - 1, *way.outputs, *(n for s in way.steps for n in _made(s))]) + 1
    taken = {}
    first: list[Step] = []
    for value, order in enumerate(placed[: way.inputs]):
        if order:
            pairs = tuple((device, place) for place, device in enumerate(order))
            first.append(_moved(value, free, pairs))
            taken[value], free = free, free + 1
    steps = [_taking(step, taken) for step in way.steps]
    outputs = []
    for value, order in zip(way.outputs, placed[way.inputs :], strict=True):
        given = taken.get(value, value)
        if order:
            steps.append(_moved(given, free, tuple(enumerate(order))))
            given, free = free, free + 1
        outputs.append(given)
    return Way(inputs=way.inputs, outputs=tuple(outputs), steps=(*first, *steps))


def _moved(value: int, made: int, pairs: tuple[tuple[int, int], ...]) -> Collective:
    return Collective(kind="collective_permute", input=value, output=made, groups=pairs)


def _made(step: Step) -> tuple[int, ...]:
    return (step.output,) if isinstance(step, Collective) else step.outputs


def _taking(step: Step, taken: dict[int, int]) -> Step:
    if isinstance(step, Collective):
        return replace(step, input=taken.get(step.input, step.input))
    return replace(step, inputs=tuple(taken.get(value, value) for value in step.inputs))
