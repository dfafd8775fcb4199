"""The nodes of a traced `tf.function`, by the paths that XLA writes into locations.

A path is the names of the calls that a node is in, and its own; it begins anew in the body of a
loop or branch. A graph remembers its nodes' lines, XLA only where in TensorFlow they were made.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.exporters.places import is_edgecs, is_users
from edgec.toolchain.framework_values import place_name

__all__ = ["Nodes"]

_FILE = re.compile(r'"[^"]+":\d+:\d+')
_NAME = re.compile(r'"([^"]+)"')

_CALLED = {
    "f": True,
    **dict.fromkeys(("cond", "body", "then_branch", "else_branch", "branches"), False),
}
"""What names the functions that a node stands for, and whether their paths go on from its own."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The nodes of a function, and of all that it calls.

    Attributes:
        names: of all nodes.
        lines: the user's file and line of those that remember one, by path.
        numbered: whether locations are to say their numbers.
    """

    names: frozenset[str]
    lines: Mapping[str, tuple[str, int]]
    numbered: bool
    _numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, concrete: Any, *, numbered: bool) -> "Nodes":
        """Those of a `ConcreteFunction`."""
        graph = concrete.graph.as_graph_def()
        inner = (node.name for each in graph.library.function for node in each.node_def)
        return cls(
            names=frozenset([*(node.name for node in graph.node), *inner]),
            lines=_lines(concrete.graph, ""),
            numbered=numbered,
        )

    def number(self, path: str) -> int:
        """The number of what has this path: the next, where it has none yet."""
        return self._numbers.setdefault(path, len(self._numbers))

    def line(self, path: str) -> tuple[str, int] | None:
        """The user's file and line of a node; else of the call or loop that it is in."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition("/")[0]
        return None

    def text(self, path: str) -> str:
        """`file:line` of a node, or its name."""
        line = self.line(path)
        return f"node {path}" if line is None else f"{line[0]}:{line[1]}"

    def place(self, location: Any) -> Any:
        """What an operation's location becomes: the node, its line, and its number if asked for.

        What XLA calls by itself (`reshape.1`) is no node.
        """
        from iree.compiler import ir

        names = _NAME.findall(_FILE.sub("", str(location)))
        # What was written once for several has all their names; the node that it is now comes last.
        path = names[0].rpartition(";")[2] if names else ""
        if not self._is_node(path):
            return ir.Location.unknown()
        line = self.line(path)
        child = ir.Location.unknown() if line is None else ir.Location.file(*line, 0)
        place = ir.Location.name(path, child)
        return ir.Location.name(place_name(self.number(path)), place) if self.numbered else place

    def _is_node(self, path: str) -> bool:
        parts = path.split("/")
        return any("/".join(parts[first:]) in self.names for first in range(len(parts)))


def _lines(graph: Any, prefix: str) -> dict[str, tuple[str, int]]:
    """The user's lines in a graph and in those that it calls, by path."""
    found: dict[str, tuple[str, int]] = {}
    for operation in graph.get_operations():
        path = f"{prefix}{operation.name}"
        line = _line(operation)
        if line is not None:
            found.setdefault(path, line)
        for key in _CALLED.keys() & set(operation.node_def.attr):
            called = operation.node_def.attr[key]
            for function in (called.func, *called.list.func):
                inner = getattr(graph._get_function(function.name), "graph", None)
                if function.name and inner is not None:
                    found = _lines(inner, f"{path}/" if _CALLED[key] else "") | found
    return found


def _line(operation: Any) -> tuple[str, int] | None:
    """The innermost line of the user's that a node remembers; what called edgec is no model's."""
    for frame in reversed(operation.traceback or ()):
        if is_edgecs(frame.filename):
            return None
        if is_users(frame.filename):
            return frame.filename, frame.lineno
    return None
