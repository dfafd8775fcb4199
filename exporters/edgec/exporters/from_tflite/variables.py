"""Variables of a `.tflite` file: those that a subgraph keeps between calls, and their first values.

`VAR_HANDLE` names one, `READ_VARIABLE` and `ASSIGN_VARIABLE` take its handle, and `CALL_ONCE` runs
a subgraph before the first call, which sets them. In a program they are states.
"""

from collections.abc import Sequence

from edgec.exporters.from_tflite.model import TfliteOperator, TfliteSubgraph
from edgec.runtime.errors import SourceError

__all__ = ["HANDLE", "VARIABLES", "first_runs", "name_of"]

HANDLE = "RESOURCE"
"""The type of a tensor that stands for a variable."""

VARIABLES = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")
"""Operators on variables."""


def name_of(handle: TfliteOperator) -> str:
    """The name of a `VAR_HANDLE`'s variable, by which all subgraphs mean the same one."""
    parts = (getattr(handle.options, part, None) for part in ("container", "sharedName"))
    return "/".join(part.decode(errors="replace") for part in parts if part)


def first_runs(graph: TfliteSubgraph, graphs: Sequence[TfliteSubgraph]) -> list[int]:
    """The places of the subgraphs that run once before the first call.

    Raises:
        SourceError: an operator names one that is not there.
    """
    calls = [operator for operator in graph.operators if operator.kind == "CALL_ONCE"]
    found = [int(getattr(call.options, "initSubgraphIndex", -1)) for call in calls]
    for place in found:
        known = 0 < place < len(graphs)
        if not known or any(other.kind == "CALL_ONCE" for other in graphs[place].operators):
            raise SourceError(
                "an operator CALL_ONCE of the file names no subgraph that it could run",
                hint="convert the model again",
            )
    return found
