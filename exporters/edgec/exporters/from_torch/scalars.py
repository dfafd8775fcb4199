"""Operators along an axis of a number that has none: PyTorch takes axis 0, torch-mlir does not."""

from typing import Any

from edgec.exporters.from_torch.inline import inlined, is_node, replaced, values_of_node

__all__ = ["scalars_as_rows"]

_AXES = ("dim", "dims")


def scalars_as_rows(graph: Any) -> None:
    """Give such numbers an axis of one, in place; some of torch-mlir's passes never end of them."""
    import torch
    import torch.utils._pytree as pytree

    for node in list(graph.nodes):
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            continue
        if not any(arg.name in _AXES for arg in target._schema.arguments) or not node.args:
            continue
        first = node.args[0]
        if not is_node(first) or not isinstance(first.meta.get("val"), torch.Tensor):
            continue
        if first.meta["val"].ndim or not _by_axis(node):
            continue
        leaves, structure = pytree.tree_flatten((tuple(node.args), dict(node.kwargs)))
        reads = list(dict.fromkeys(leaf for leaf in leaves if is_node(leaf)))
        shapes = [value.shape for value in values_of_node(node)]

        def compute(
            *values: Any,
            reads: Any = reads,
            leaves: Any = leaves,
            structure: Any = structure,
            target: Any = target,
            shapes: Any = shapes,
        ) -> list[Any]:
            at = dict(zip(reads, values, strict=True))
            given = [_row(at[leaf]) if is_node(leaf) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(given, structure)
            found = pytree.tree_leaves(target(*args, **kwargs))
            return [each.reshape(shape) for each, shape in zip(found, shapes, strict=True)]

        replaced(graph, node, inlined(graph, node, compute, reads))


def _by_axis(node: Any) -> bool:
    """Whether a node's axis is one that numbers lack; `unsqueeze` makes one."""
    name = str(node.target.overloadpacket).removeprefix("aten.")
    return name not in ("unsqueeze", "unsqueeze_copy", "squeeze", "expand_dims", "cat", "stack")


def _row(value: Any) -> Any:
    import torch

    return value.reshape(1) if isinstance(value, torch.Tensor) and not value.ndim else value
