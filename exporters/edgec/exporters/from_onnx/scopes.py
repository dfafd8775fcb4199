"""What graphs inside of an ONNX graph (bodies of loops, branches) read from outside of them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from edgec.exporters.lift_weights import SMALLEST

__all__ = ["hoist_weights", "inner_graphs", "read_outside", "rename_outside"]


def inner_graphs(node: Any) -> Iterable[Any]:
    """The graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def read_outside(graph: Any) -> list[str]:
    """The values that an inner graph reads and does not have, in order, each once."""
    own = _own(graph)
    found: dict[str, None] = {}
    for node in graph.node:
        inner = [name for part in inner_graphs(node) for name in read_outside(part)]
        found.update(dict.fromkeys(n for n in (*node.input, *inner) if n and n not in own))
    found.update(dict.fromkeys(v.name for v in graph.output if v.name not in own))
    return list(found)


def rename_outside(graph: Any, names: Mapping[str, str]) -> None:
    """Let an inner graph read other values from outside; the graph is changed."""
    own = _own(graph)
    known = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [known.get(name, name) for name in node.input]
        for part in inner_graphs(node):
            rename_outside(part, known)
    for output in graph.output:
        output.name = known.get(output.name, output.name)


def hoist_weights(model: Any) -> None:
    """Move large constants out of inner graphs, to where weights are found; the model is changed.

    The inner graphs read them from outside then.
    """
    graph = model.graph
    taken = _names(graph)
    for node in graph.node:
        for part in inner_graphs(node):
            _hoist(part, graph, taken)


def _hoist(graph: Any, target: Any, taken: set[str]) -> None:
    from onnx import numpy_helper

    for node in list(graph.node):
        for part in inner_graphs(node):
            _hoist(part, target, taken)
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            tensor = node.attribute[0].t
            if _is_weight(numpy_helper.to_array(tensor)):
                tensor.name = node.output[0]
                graph.initializer.append(tensor)
                graph.node.remove(node)
    moved: dict[str, str] = {}
    for tensor in list(graph.initializer):
        if not _is_weight(numpy_helper.to_array(tensor)):
            continue
        name = old = tensor.name
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        moved[old] = name
        tensor.name = name
        target.initializer.append(tensor)
        del graph.initializer[[t.name for t in graph.initializer].index(name)]
    rename_outside(graph, moved)


def _is_weight(value: np.ndarray) -> bool:
    return value.nbytes >= SMALLEST and value.dtype.kind in "fV"


def _own(graph: Any) -> set[str]:
    """The values that a graph has: what it is given, its constants, and what its nodes give."""
    names = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    return names | {name for node in graph.node for name in node.output}


def _names(graph: Any) -> set[str]:
    """All names of a graph, with those inside of its nodes."""
    names = _own(graph)
    for node in graph.node:
        for part in inner_graphs(node):
            names |= _names(part)
    return names
