"""The graph of a `tf.function`, and of each function that it calls, to nodes that can be run.

A graph is cut before and behind each node that stands for other functions. What lies between two
such is a function of its own then, that gives every tensor which it computes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

__all__ = ["Body", "bodies_of", "owner", "tensor", "together"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """One function's graph.

    Attributes:
        nodes: `NodeDef`s in an order in which they can be computed; its inputs are none of them.
        given: its inputs, as `name:place`.
        results: its results, as `name:place`.
        made: what `together` gave for some of the nodes, by the first one's name.
    """

    nodes: tuple[Any, ...]
    given: tuple[str, ...]
    results: tuple[str, ...]
    made: dict[str, Any] = field(default_factory=dict)


def bodies_of(concrete: Any) -> tuple[Body, dict[str, Body], Any]:
    """A traced function's own body, those of all functions in it by name, and their library."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

    graph = concrete.graph.as_graph_def()
    found: dict[str, Body] = {}
    for function in graph.library.function:
        inner, names = function_def_to_graph_def(function)
        found[function.signature.name] = _body(
            inner.node,
            [f"{each.name}:0" for each in function.signature.input_arg],
            [names[function.ret[each.name]] for each in function.signature.output_arg],
        )
    given, results = (
        [each.name for each in tensors] for tensors in (concrete.graph.inputs, concrete.outputs)
    )
    return _body(graph.node, given, results), found, graph.library


def _body(nodes: Sequence[Any], given: Sequence[str], results: Sequence[str]) -> Body:
    by_name = {node.name: node for node in nodes}
    order = TopologicalSorter(
        {name: [owner(text) for text in node.input] for name, node in by_name.items()}
    )
    inputs = {owner(text) for text in given}
    return Body(
        nodes=tuple(by_name[name] for name in order.static_order() if name not in inputs),
        given=tuple(map(tensor, given)),
        results=tuple(map(tensor, results)),
    )


def owner(text: str) -> str:
    """The node that an input of another is of: `a` of `a`, `a:1` and `^a`."""
    return text.removeprefix("^").partition(":")[0]


def tensor(text: str) -> str:
    """An input as `name:place`."""
    return text if ":" in text else f"{text}:0"


def together(
    body: Body, nodes: Sequence[Any], values: Mapping[str, Any], library: Any
) -> dict[str, Any]:
    """What some nodes of a body give, computed at once: by `name:place`.

    Args:
        body: whose nodes they are.
        nodes: in an order in which they can be computed.
        values: all that they read, by `name:place`.
        library: the functions that nodes may name.
    """
    import tensorflow as tf

    own = {node.name for node in nodes}
    read = dict.fromkeys(
        tensor(text)
        for node in nodes
        for text in node.input
        if not text.startswith("^") and owner(text) not in own
    )
    key = nodes[0].name
    if key not in body.made:
        specs = [tf.TensorSpec(None, values[name].dtype) for name in read]
        graph = _graph(nodes, own, {name: f"given_{n}" for n, name in enumerate(read)}, specs)
        graph.library.CopyFrom(library)
        names: list[str] = []

        def call(*given: Any) -> list[Any]:
            operations = tf.graph_util.import_graph_def(
                graph,
                input_map={f"given_{n}:0": each for n, each in enumerate(given)},
                return_elements=[node.name for node in nodes],
                name="",
            )
            outputs = [each for operation in operations for each in operation.outputs]
            names[:] = [each.name for each in outputs]
            with tf.control_dependencies(operations):  # what changes a variable gives nothing
                return [*outputs, tf.constant(0)]

        body.made[key] = tf.compat.v1.wrap_function(call, specs), names
    function, names = body.made[key]
    return dict(zip(names, function(*(values[name] for name in read)), strict=False))


def _graph(
    nodes: Sequence[Any], own: set[str], given: Mapping[str, str], specs: Sequence[Any]
) -> Any:
    """The nodes as a graph of their own; what they read from outside is a placeholder."""
    from tensorflow.core.framework.graph_pb2 import GraphDef

    graph = GraphDef()
    for name, spec in zip(given.values(), specs, strict=True):
        placeholder = graph.node.add(name=name, op="Placeholder")
        placeholder.attr["dtype"].type = spec.dtype.as_datatype_enum
        placeholder.attr["shape"].shape.unknown_rank = True
    for node in nodes:
        copy = graph.node.add()
        copy.CopyFrom(node)
        copy.ClearField("device")
        copy.attr.pop("_class", None)  # says beside what of the whole graph it lies
        copy.ClearField("input")
        for text in node.input:
            if owner(text) in own:
                copy.input.append(text)
            elif not text.startswith("^"):
                copy.input.append(given[tensor(text)])
    return graph
