"""What the devices of a program do, in whole numbers, as `runtime/pjrt/route.c` reads them."""

from collections.abc import Iterator, Mapping, Sequence

from edgec.exporters.mesh.ways import FLOWS, Callback, Turns, Way
from edgec.plugins.pjrt.arrays import NUMBERS, arrays_as_numbers
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UnsupportedOp
from edgec.runtime.mesh.plan import COLLECTIVES, Call, Collective

__all__ = ["functions_of", "way_as_numbers"]

_CALL = 0
_KINDS = {kind: number for number, kind in enumerate((*COLLECTIVES, *FLOWS), start=1)}
_CALLBACK = len(_KINDS) + 1
_REDUCTIONS = {
    name: number
    for number, name in enumerate(("add", "multiply", "maximum", "minimum", "and", "or", "xor"))
}


def functions_of(way: Way) -> tuple[str, ...]:
    """The functions that a way calls, each once."""
    return tuple(dict.fromkeys(_called(way)))


def _called(way: Way) -> Iterator[str]:
    for step in way.steps:
        if isinstance(step, Call):
            yield step.function
        if isinstance(step, Turns):
            for inner in step.ways:
                yield from _called(inner)


def way_as_numbers(
    way: Way, devices: int, inputs: Sequence[DType], results: Mapping[str, Sequence[DType]]
) -> tuple[int, ...]:
    """A way for so many devices.

    Args:
        way: what they do.
        devices: how many they are.
        inputs: the types of what it takes.
        results: of what each function gives, by its name.

    Raises:
        UnsupportedOp: a collective is along another axis than the first.
    """
    names = functions_of(way)
    return (devices, *_Writer(names, results).way(way, inputs)[0])


class _Writer:
    """Writes ways, knowing the type of each value."""

    def __init__(self, names: Sequence[str], results: Mapping[str, Sequence[DType]]) -> None:
        self._names = names
        self._results = results

    def way(self, way: Way, inputs: Sequence[DType]) -> tuple[list[int], list[DType]]:
        """Its numbers, and the types of what it gives."""
        types = dict(enumerate(inputs))
        numbers: list[int] = []
        for step in way.steps:
            if isinstance(step, Call):
                numbers += self._call(step)
                types.update(zip(step.outputs, self._results[step.function], strict=True))
            elif isinstance(step, Collective):
                numbers += _collective(step, types[step.input])
                types[step.output] = types[step.input]
            elif isinstance(step, Callback):
                arrays = [(DType.from_mlir(element), shape) for shape, element in step.arrays]
                numbers += self._callback(step, arrays)
                types.update(zip(step.outputs, (dtype for dtype, _ in arrays), strict=True))
            else:
                written, given = self._turns(step, [types[value] for value in step.inputs])
                numbers += written
                types.update(zip(step.outputs, given, strict=True))
        values = max(types, default=-1) + 1
        head = [values, way.inputs, len(way.outputs), len(way.steps), *way.outputs]
        return head + numbers, [types[value] for value in way.outputs]

    def _call(self, step: Call) -> Iterator[int]:
        place = self._names.index(step.function)
        yield from (_CALL, place, int(step.numbered), len(step.inputs), len(step.outputs))
        yield from step.inputs
        yield from step.outputs

    def _callback(
        self, step: Callback, arrays: Sequence[tuple[DType, Sequence[int]]]
    ) -> Iterator[int]:
        yield from (_CALLBACK, step.number, int(step.every), len(step.inputs), len(step.outputs))
        yield from step.inputs
        yield from step.outputs
        yield from arrays_as_numbers(arrays)

    def _turns(self, step: Turns, given: list[DType]) -> tuple[list[int], list[DType]]:
        taken = given if step.kind == "while" else given[1:]
        written = [self.way(way, taken) for way in step.ways]
        head = [_KINDS[step.kind], len(step.inputs), len(step.outputs), len(step.ways)]
        numbers = [number for each, _ in written for number in each]
        return [*head, *step.inputs, *step.outputs, *numbers], written[-1][1]


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
