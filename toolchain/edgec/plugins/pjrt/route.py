"""What the devices of a program do, in whole numbers, as `runtime/pjrt/route.c` reads them."""

from collections.abc import Iterator, Mapping

from edgec.plugins.pjrt.arrays import NUMBERS
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UnsupportedOp
from edgec.runtime.mesh.plan import COLLECTIVES, Call, Collective, Route

__all__ = ["functions_of", "route_as_numbers"]

_CALL = 0
_KINDS = {kind: number for number, kind in enumerate(COLLECTIVES, start=1)}
_REDUCTIONS = {
    name: number
    for number, name in enumerate(("add", "multiply", "maximum", "minimum", "and", "or", "xor"))
}


def functions_of(route: Route) -> tuple[str, ...]:
    """The functions that a route calls, each once."""
    return tuple(dict.fromkeys(s.function for s in route.steps if isinstance(s, Call)))


def route_as_numbers(route: Route, devices: int, types: Mapping[int, DType]) -> tuple[int, ...]:
    """A route for so many devices.

    Args:
        route: what they do.
        devices: how many they are.
        types: of each value's elements, by its number.

    Raises:
        UnsupportedOp: a collective is along another axis than the first.
    """
    made = [n for s in route.steps for n in (s.outputs if isinstance(s, Call) else (s.output,))]
    values = max([len(route.inputs), *(number + 1 for number in made)])
    results = [value for value, _ in route.outputs]
    head = (devices, values, len(route.inputs), len(results), len(route.steps), *results)
    names = functions_of(route)
    return (
        *head,
        *(
            number
            for step in route.steps
            for number in (
                _call(step, names.index(step.function))
                if isinstance(step, Call)
                else _collective(step, types[step.input])
            )
        ),
    )


def _call(step: Call, function: int) -> Iterator[int]:
    yield from (_CALL, function, int(step.numbered), len(step.inputs), len(step.outputs))
    yield from step.inputs
    yield from step.outputs


def _collective(step: Collective, dtype: DType) -> Iterator[int]:
    if step.axis or step.onto:
        raise UnsupportedOp(
            f"a collective is along an inner axis ({step.kind})",
            where=step.where or None,
            hint="this is an error in edgec: please report it",
        )
    yield from (_KINDS[step.kind], step.input, step.output, NUMBERS[dtype])
    yield _REDUCTIONS[step.operation] if step.operation else 0
    yield len(step.groups)
    for group in step.groups:
        yield from (len(group), *group)
