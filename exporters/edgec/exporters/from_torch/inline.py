"""What computes a node's value, traced, in the node's place in a graph."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch.decompositions import decompositions

__all__ = ["copied", "inlined", "is_node", "rewritten", "values_of_node"]

_KEPT = ("nn_module_stack", "source_fn_stack", "stack_trace")


def copied(graph: Any) -> Any:
    """A graph of its own, with nodes of the same names."""
    import torch

    new = torch.fx.Graph(owning_module=graph.owning_module)
    new.output(new.graph_copy(graph, {}))
    new.output_node().meta = dict(graph.output_node().meta)
    return new


def is_node(value: Any) -> bool:
    """Whether an argument of a node is another node."""
    import torch

    return isinstance(value, torch.fx.Node)


def values_of_node(node: Any) -> Sequence[Any]:
    """The fake tensors that a node gives."""
    import torch.utils._pytree as pytree

    return list(pytree.tree_leaves(node.meta.get("val")))


def inlined(
    graph: Any,
    node: Any,
    compute: Callable[..., list[Any]],
    reads: Sequence[Any],
    rules: Mapping[Any, Callable[..., Any]] | None = None,
) -> list[Any]:
    """Trace a function and write what it does before a node.

    Args:
        graph: the graph, changed in place.
        node: the node, whose line the new ones have.
        compute: from the values of `reads` to a list of tensors.
        reads: nodes.
        rules: decompositions besides the exporter's own.

    Returns:
        The nodes of what `compute` gives.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    values = [each.meta["val"] for each in reads]
    known = [*values, *values_of_node(node)]
    mode = next(value.fake_mode for value in known if hasattr(value, "fake_mode"))
    table = {**decompositions(), **(rules or {})}
    with mode, torch.no_grad():
        body = make_fx(compute, decomposition_table=table)(*values)
    inside: dict[Any, Any] = {}
    rest = iter(reads)
    found: list[Any] = []
    with graph.inserting_before(node):
        for each in body.graph.nodes:
            if each.op == "placeholder":
                inside[each] = next(rest)
            elif each.op == "output":
                found = [inside[leaf] if is_node(leaf) else leaf for leaf in each.args[0]]
            elif each.op == "get_attr":
                inside[each] = _constant(graph, body, each)
            else:
                inside[each] = graph.node_copy(each, inside.__getitem__)
                for key in _KEPT:
                    if key in node.meta:
                        inside[each].meta[key] = node.meta[key]
    return found


def rewritten(
    graph: Any,
    node: Any,
    function: Callable[..., Any],
    rules: Mapping[Any, Callable[..., Any]] | None = None,
) -> None:
    """Write what a function does with a node's arguments in the node's place.

    Args:
        graph: the graph, changed in place.
        node: the node.
        function: takes the node's arguments, tensors for nodes, and gives what the node gives.
        rules: decompositions besides the exporter's own.

    Raises:
        NotImplementedError: the function gives NotImplemented, or the node's values are read
            together.
    """
    import torch.utils._pytree as pytree

    leaves, structure = pytree.tree_flatten((tuple(node.args), dict(node.kwargs)))
    reads = list(dict.fromkeys(leaf for leaf in leaves if is_node(leaf)))

    def compute(*values: Any) -> list[Any]:
        at = dict(zip(reads, values, strict=True))
        given = [at[leaf] if is_node(leaf) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(given, structure)
        found = function(*args, **kwargs)
        if found is NotImplemented:
            raise NotImplementedError(str(node.target))
        return list(found) if isinstance(found, list | tuple) else [found]

    found = inlined(graph, node, compute, reads, rules)
    if not isinstance(node.meta.get("val"), list | tuple):
        node.replace_all_uses_with(found[0])
    else:
        users = list(node.users)
        if any(user.target is not operator.getitem for user in users):
            raise NotImplementedError(str(node.target))
        for user in users:
            user.replace_all_uses_with(found[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)


def _constant(graph: Any, body: Any, node: Any) -> Any:
    """A tensor that tracing has made, kept by the graph's module."""
    owner = graph.owning_module
    number = 0
    while hasattr(owner, name := f"_inlined_constant{number}"):
        number += 1
    owner.register_buffer(name, getattr(body, node.target), persistent=False)
    made = graph.get_attr(name)
    made.meta = dict(node.meta)
    return made
