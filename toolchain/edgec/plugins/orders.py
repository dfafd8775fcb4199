"""Images that go from one graph of a step to the other with their channels last in memory.

Kernels on the CPU have an image's channels last. What a forward graph keeps for the backward one is
seen by nobody else, so it may lie as the kernels have it: PyTorch says that by a tensor's strides,
and neither graph turns it.
"""

from collections.abc import Sequence
from typing import Any

__all__ = [
    "has_channels_last",
    "images",
    "take_any_strides",
    "turned",
    "turned_back",
    "with_strides",
]

_MOVES = {"as_strided", "expand", "permute", "reshape", "t", "transpose", "_unsafe_view", "view"}


def has_channels_last(value: Any) -> bool:
    """Whether a tensor's memory is dense with the channels last, and in no other order."""
    return value.ndim > 3 and not value.is_contiguous() and turned(value).is_contiguous()


def turned(value: Any) -> Any:
    """The tensor with dimension 1 last; a view."""
    return value.permute(0, *range(2, value.ndim), 1)


def turned_back(value: Any) -> Any:
    """The tensor with its last dimension in place 1; a view."""
    return value.permute(0, value.ndim - 1, *range(1, value.ndim - 1))


def images(graph: Any) -> set[int]:
    """Which results of a graph are images of its convolutions, as these give them.

    A value is one that a convolution gives, or of as many images and channels as one that it is
    made of, by an operation that moves no axes.
    """
    import torch

    known: dict[Any, tuple[int, Any, Any]] = {}
    results: set[int] = set()
    for node in graph.graph.nodes:
        if node.op == "output":
            results = {place for place, each in enumerate(node.args[0]) if each in known}
        value = node.meta.get("val")
        if node.op != "call_function" or _name(node) in _MOVES:
            continue
        of = next((known[given] for given in node.all_input_nodes if given in known), None)
        if not isinstance(value, torch.Tensor):
            if of is not None:  # several results, each taken by a node of its own
                known[node] = of
        elif value.ndim > 3:
            kind = (value.ndim, value.shape[0], value.shape[1])
            if node.target is torch.ops.aten.convolution.default or kind == of:
                known[node] = kind
    return results


def take_any_strides(graph: Any) -> None:
    """Let a graph's views take inputs whose memory lies in another order than when it was traced.

    What a module gives is dense; in PyTorch the same value may have its channels last.
    """
    import torch

    view, reshape = torch.ops.aten.view.default, torch.ops.aten.reshape.default
    for node in graph.graph.find_nodes(op="call_function", target=view):
        node.target = reshape
    graph.recompile()


def with_strides(graph: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs as they lay when the graph was traced, if it reads memory by strides."""
    import torch

    if not graph.graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        return inputs
    nodes = graph.graph.find_nodes(op="placeholder")
    return [_laid(value, node.meta.get("val")) for value, node in zip(inputs, nodes, strict=True)]


def _laid(value: Any, traced: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor) or not isinstance(traced, torch.Tensor):
        return value
    wanted = traced.stride()
    if not all(isinstance(step, int) for step in wanted) or value.stride() == wanted:
        return value
    return torch.empty_strided(value.shape, wanted, dtype=value.dtype).copy_(value)


def _name(node: Any) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return "" if packet is None else str(packet.__name__)
