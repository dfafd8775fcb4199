"""Operators of a `.tflite` file that run other subgraphs: which, and the numbers in these.

A tensor's number is its index in its subgraph; subgraphs that loops and branches run have numbers
of their own behind those of the subgraph that they are in.
"""

from collections.abc import Sequence

from edgec.exporters.from_tflite.model import TfliteOperator, TfliteSubgraph
from edgec.runtime.errors import SourceError

__all__ = ["CONTROL", "first_numbers", "inner"]

CONTROL = {
    "IF": ("thenSubgraphIndex", "elseSubgraphIndex"),
    "WHILE": ("condSubgraphIndex", "bodySubgraphIndex"),
}
"""Operators that run other subgraphs, and the options that name them."""


def inner(operator: TfliteOperator, graphs: Sequence[TfliteSubgraph]) -> tuple[int, ...]:
    """The places of the subgraphs that an operator runs, which are never the first.

    Raises:
        SourceError: it names some that are not there.
    """
    chosen = [int(getattr(operator.options, name, -1)) for name in CONTROL.get(operator.kind, ())]
    if any(not 0 < index < len(graphs) for index in chosen):
        raise SourceError(
            f"an operator {operator.kind} of the file names no subgraph that it could run",
            hint="convert the model again",
        )
    return tuple(chosen)


def first_numbers(
    operator: TfliteOperator, graph: TfliteSubgraph, graphs: Sequence[TfliteSubgraph], first: int
) -> tuple[int, ...]:
    """Where the numbers of the subgraphs begin that an operator runs.

    Args:
        operator: one of the subgraph's.
        graph: the subgraph.
        graphs: all of the file.
        first: where the subgraph's own numbers begin.
    """
    place = first + len(graph.tensors)
    for each in graph.operators:
        starts = []
        for chosen in inner(each, graphs):
            starts.append(place)
            place += _count(graphs[chosen], graphs)
        if each.outputs == operator.outputs:
            return tuple(starts)
    return ()


def _count(graph: TfliteSubgraph, graphs: Sequence[TfliteSubgraph]) -> int:
    """How many numbers a subgraph takes."""
    others = (graphs[chosen] for each in graph.operators for chosen in inner(each, graphs))
    return len(graph.tensors) + sum(_count(other, graphs) for other in others)
