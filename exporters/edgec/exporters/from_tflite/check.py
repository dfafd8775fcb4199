"""What a `.tflite` file has that is not in the table, refused by name before anything is traced."""

from collections.abc import Sequence

from edgec.exporters.from_tflite.control import CONTROL, inner
from edgec.exporters.from_tflite.model import TfliteSubgraph
from edgec.exporters.from_tflite.operators import OPERATORS
from edgec.exporters.from_tflite.variables import HANDLE, VARIABLES, first_runs
from edgec.runtime.errors import SourceError, UnsupportedOp

__all__ = ["check_operators"]


def check_operators(
    graph: TfliteSubgraph,
    subject: str,
    graphs: Sequence[TfliteSubgraph] = (),
    depth: int = 0,
) -> None:
    """Refuse a subgraph with operators or tensors that are not in the table, all by name.

    Args:
        graph: the subgraph; those that its loops and branches run are looked at, too.
        subject: the file's name, for messages.
        graphs: all subgraphs of the file.
        depth: how many subgraphs run this one.

    Raises:
        SourceError: the subgraphs run each other without end.
        UnsupportedOp: it has some.
    """
    if depth > len(graphs):
        raise SourceError(
            f"the subgraphs of {subject} run each other without end", hint="convert the model again"
        )
    unknown: dict[str, str] = {}
    taken = (*OPERATORS, *CONTROL, *(() if depth else VARIABLES))
    for operator in graph.operators:
        if operator.kind not in taken:
            first = [graph.tensors[i].name for i in operator.outputs[:1]]
            unknown.setdefault(operator.kind, first[0] if first else "nothing")
    if unknown:
        hint = "docs/tflite.md lists what is supported; export the model from its framework"
        if any(kind.startswith(("CUSTOM Flex", "CUSTOM TFLite_")) for kind in unknown):
            hint = "convert the model with built-in operators only, without Flex and custom ones"
        kind, name = next(iter(unknown.items()))
        rest = f", nor are {', '.join(list(unknown)[1:])}" if len(unknown) > 1 else ""
        raise UnsupportedOp(
            f"TensorFlow Lite's {kind} in {subject} is not supported{rest}",
            where=f"the operator that computes {name}",
            hint=hint,
        )
    for operator in graph.operators:
        for index in (*operator.inputs, *operator.outputs):
            if index >= 0 and not (operator.kind in VARIABLES and _is_handle(graph, index)):
                _ = graph.tensors[index].dtype
        for chosen in inner(operator, graphs):
            check_operators(graphs[chosen], subject, graphs, depth + 1)
    for place in () if depth else first_runs(graph, graphs):
        check_operators(graphs[place], subject, graphs)
    for index in (*graph.inputs, *graph.outputs):
        _ = graph.tensors[index].dtype


def _is_handle(graph: TfliteSubgraph, index: int) -> bool:
    return graph.tensors[index].kind == HANDLE
