"""Nodes written into a PyTorch graph, each with what it gives: it is run on fake tensors."""

from typing import Any

__all__ = ["Writer", "given"]


class Writer:
    """Writes nodes with the place of another, and what they give."""

    def __init__(self, graph: Any, like: Any) -> None:
        self._graph = graph
        self._place = {
            key: like.meta[key] for key in ("stack_trace", "nn_module_stack") if key in like.meta
        }
        self._mode = like.meta["val"].fake_mode

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """The node, written where the graph inserts now."""
        node = self._graph.call_function(target, args, kwargs)
        node.meta |= self._place
        node.meta["val"] = given(node, self._mode)
        return node


def given(node: Any, mode: Any) -> Any:
    """What a node gives, of what its operands give."""
    import torch

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
    with mode:
        return node.target(*args, **kwargs)
