"""A `.tflite` file and what it is called with to the value of every tensor, by LiteRT.

LiteRT computes with kernels of its own then, without the delegate that would keep what is between
operators to itself. What is inside of a loop it tells nobody: a loop's subgraphs are run one after
the other, turn by turn, each as the first of a file. LiteRT may end the process, so all of it is a
child's work: python -m edgec.exporters.from_tflite.on_the_way FOLDER
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.exporters.from_tflite.control import CONTROL, first_numbers, inner
from edgec.exporters.from_tflite.model import (
    TfliteModel,
    TfliteOperator,
    TfliteSubgraph,
    read_model,
)
from edgec.exporters.from_tflite.run import OWN, REFERENCE, LiteRt, allowed
from edgec.exporters.from_tflite.variables import HANDLE
from edgec.runtime.errors import ExportError
from edgec.toolchain.framework_values import MOST_TIMES, FrameworkValue, storable

__all__ = ["values_of"]

_SIZES = ("SHAPE", "RANK")
"""What depends on inputs' sizes alone."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What gives a tensor: an operator of a subgraph."""

    operator: TfliteOperator
    graph: TfliteSubgraph


def made_of(
    graph: TfliteSubgraph, graphs: Sequence[TfliteSubgraph], first: int = 0
) -> dict[tuple[int, int], Made]:
    """What depends on inputs, of a subgraph and of those that it runs.

    Args:
        graph: the subgraph.
        graphs: all of the file.
        first: where its numbers begin.

    Returns:
        By that number and the tensor's index: what gives it.
    """
    depends = set(graph.inputs)
    found: dict[tuple[int, int], Made] = {}
    for operator in graph.operators:
        if depends.isdisjoint(operator.inputs) or operator.kind in _SIZES:
            continue
        depends |= set(operator.outputs)
        made = Made(operator=operator, graph=graph)
        found |= {(first, index): made for index in operator.outputs}
        starts = first_numbers(operator, graph, graphs, first)
        for chosen, start in zip(inner(operator, graphs), starts, strict=True):
            found |= made_of(graphs[chosen], graphs, start)
    return found


def values_of(
    runner: LiteRt, model: TfliteModel, number: int, function: str, given: Sequence[np.ndarray]
) -> tuple[FrameworkValue, ...]:
    """What each operator gives that depends on inputs, each time that it is computed.

    LiteRT's reference kernels say how far apart two ways to round on a grid come.

    Args:
        runner: the file in LiteRT.
        model: the file, read.
        number: of the subgraph that is called.
        function: the signature's name.
        given: what it is called with.

    Raises:
        ExportError: LiteRT cannot run it so.
    """
    answers = runner.noted(given, OWN)
    try:
        others = runner.noted(given, REFERENCE)
    except ExportError:  # the reference takes fewer forms
        others = answers
    found = []
    for (first, index), made in made_of(model.subgraphs[number], model.subgraphs).items():
        names = [name for name in answers if name.startswith(f"{first}/{index}/")]
        arrays = [answers[name] for name in names]
        if not arrays or not storable(arrays[0]) or not arrays[0].size:
            continue
        tensor = made.graph.tensors[index]
        apart = [
            allowed(made.graph, index, answers[name], others[name])
            for name in names
            if name in others and others[name].shape == answers[name].shape
        ]
        found.append(
            FrameworkValue(
                function=function,
                number=first + made.operator.outputs[0],
                name=tensor.name,
                operation=made.operator.kind,
                line=f"node {tensor.name}",
                arrays=tuple(arrays),
                within=max(apart, default=0.0),
            )
        )
    return tuple(found)


class _Walk:
    """One way through a file, operator by operator where loops and branches are."""

    def __init__(self, data: bytes, model: TfliteModel, kernels: str) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._file = schema.ModelT.InitFromPackedBuf(data, 0)
        self._file.signatureDefs = None
        self._graphs = model.subgraphs
        self._kernels = kernels
        self._interpreters: dict[int, Any] = {}
        self.noted: dict[tuple[int, int], list[np.ndarray]] = {}

    def through(self, number: int, given: Sequence[np.ndarray], first: int) -> list[np.ndarray]:
        """What a subgraph gives; all that it computes is noted."""
        graph, interpreter = self._graphs[number], self._opened(number)
        for index, value in zip(graph.inputs, given, strict=True):
            interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        for index, value in zip(graph.inputs, given, strict=True):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        for operator in graph.operators:
            for index in operator.outputs:
                if graph.tensors[index].kind == HANDLE:
                    continue
                known = self.noted.setdefault((first, index), [])
                del known[MOST_TIMES - 1 :]  # of many turns the last stays
                known.append(interpreter.get_tensor(index))
            if operator.kind in CONTROL:
                values = [interpreter.get_tensor(index) for index in operator.inputs]
                self._turned(operator, values, first_numbers(operator, graph, self._graphs, first))
        return [interpreter.get_tensor(index) for index in graph.outputs]

    def _turned(
        self, operator: TfliteOperator, values: Sequence[np.ndarray], starts: Sequence[int]
    ) -> None:
        """The subgraphs that an operator runs, as often as it does."""
        one, other = inner(operator, self._graphs)
        if operator.kind == "IF":
            taken = 0 if values[0].reshape(-1)[0] else 1
            self.through((one, other)[taken], values[1:], starts[taken])
            return
        while self.through(one, values, starts[0])[0].reshape(-1)[0]:
            values = self.through(other, values, starts[1])

    def _opened(self, number: int) -> Any:
        """An interpreter of a file whose first subgraph is this one; none runs the first."""
        if number not in self._interpreters:
            import flatbuffers
            from ai_edge_litert.interpreter import Interpreter, OpResolverType

            own = self._file.subgraphs[0]
            self._file.subgraphs[0] = self._file.subgraphs[number]
            builder = flatbuffers.Builder()
            builder.Finish(self._file.Pack(builder), b"TFL3")
            self._file.subgraphs[0] = own
            self._interpreters[number] = Interpreter(
                model_content=bytes(builder.Output()),
                experimental_op_resolver_type=OpResolverType[self._kernels],
                experimental_preserve_all_tensors=True,
            )
        return self._interpreters[number]


def _given(home: Path) -> Iterator[np.ndarray]:
    with np.load(home / "inputs.npz", allow_pickle=False) as archive:
        yield from (archive[f"0/{index}"] for index in range(len(archive.files)))


def _child(home: Path) -> None:
    """The child's part: `inputs.npz` to `outputs.npz`, an array each time a tensor is computed."""
    plan = json.loads((home / "plan.json").read_text())
    data = (home / "model.tflite").read_bytes()
    walk = _Walk(data, read_model(data, "the model"), plan["kernels"])
    walk.through(plan["subgraph"], list(_given(home)), 0)
    arrays = {
        f"{first}/{index}/{time}": array
        for (first, index), arrays in walk.noted.items()
        for time, array in enumerate(arrays)
    }
    np.savez(home / "outputs.npz", **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
