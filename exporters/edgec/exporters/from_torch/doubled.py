"""A PyTorch model's answers in 64 bits, for those that choose between nearly equal numbers."""

import copy
from collections.abc import Mapping
from typing import Any

from edgec.exporters.from_torch.capture import Callee

__all__ = ["chooses", "in_double"]

_CHOOSING = ("topk", "sort", "argmax", "argmin", "argsort", "kthvalue", "max.dim", "min.dim")
_LARGEST = 1 << 30
"""Bytes of a model's tensors; a larger one is not copied."""


def chooses(graph: Any) -> bool:
    """Whether a graph has operations whose answers jump."""
    names = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    return any(f"aten.{word}" in name for name in names for word in _CHOOSING)


def in_double(made: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a copy of a module gives with everything in f64; f32 where that was.

    Raises:
        ValueError: it is no plain module, or too large.
    """
    import torch
    import torch.utils._pytree as pytree

    size = sum(tensor.nbytes for tensor in made.owner.state_dict().values())
    if made.forward is not None or size > _LARGEST:
        raise ValueError("no plain module, or a large one")
    model = copy.deepcopy(made.owner).double()

    def wide(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if is_float else value

    with torch.no_grad():
        args, kwargs = pytree.tree_map(wide, (args, dict(kwargs)))
        answer = model(*args, **kwargs)
        if made.answers is not None:
            answer = made.answers(answer)
        return pytree.tree_map(_narrow, answer)


def _narrow(value: Any) -> Any:
    import torch

    return value.float() if getattr(value, "dtype", None) is torch.float64 else value
