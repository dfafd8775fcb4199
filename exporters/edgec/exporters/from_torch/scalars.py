"""Operators along an axis of a number that has none: PyTorch takes axis 0, torch-mlir does not."""

import functools
from typing import Any

from edgec.exporters.from_torch.inline import is_node, rewritten, values_of_node

__all__ = ["scalars_as_rows"]

_AXES = ("dim", "dims")


def scalars_as_rows(graph: Any) -> None:
    """Give such numbers an axis of one, in place; some of torch-mlir's passes never end of them."""
    import torch

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
        rewritten(graph, node, functools.partial(_by_rows, node))


def _by_rows(node: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """What an operator gives for rows of one, in the shapes that it gives for numbers."""
    import torch
    import torch.utils._pytree as pytree

    args, kwargs = pytree.tree_map_only(torch.Tensor, _row, (args, kwargs))
    found = pytree.tree_leaves(node.target(*args, **kwargs))
    shapes = [value.shape for value in values_of_node(node)]
    return [each.reshape(shape) for each, shape in zip(found, shapes, strict=True)]


def _by_axis(node: Any) -> bool:
    """Whether a node's axis is one that numbers lack; `unsqueeze` makes one."""
    name = str(node.target.overloadpacket).removeprefix("aten.")
    return name not in ("unsqueeze", "unsqueeze_copy", "squeeze", "expand_dims", "cat", "stack")


def _row(value: Any) -> Any:
    return value if value.ndim else value.reshape(1)
