"""A kernel in a PyTorch function: an operation of its own, which computes the reference.

Exported, the operation stays in the graph with the kernel's description as its first argument; the
references of all kernels that were called in this process are kept by that.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.kernels.kernel import Kernel

__all__ = ["OPERATION", "call", "reference_of"]

OPERATION = "edgec.own_kernel"
"""How the operation's name begins in a graph."""

_REFERENCES: dict[str, Callable[..., Any]] = {}


def call(kernel: "Kernel", reference: Callable[..., Any], arrays: tuple[Any, ...]) -> Any:
    """The reference's answer, by an operation that a graph keeps."""
    import torch
    import torch.utils._pytree as pytree

    with torch.no_grad():
        leaves, structure = pytree.tree_flatten(reference(*arrays))
    text = kernel.described(arrays, tuple(leaves)).to_json()
    _REFERENCES[text] = reference
    return pytree.tree_unflatten(_operation()(text, list(arrays)), structure)


def reference_of(text: str) -> Callable[..., Any] | None:
    """The reference of a kernel by its description; None where it was not called here."""
    return _REFERENCES.get(text)


@functools.cache
def _operation() -> Any:
    import torch

    def own_kernel(kernel: str, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [leaf.contiguous().clone() for leaf in _answer(kernel, arrays)]

    made: Any = torch.library.custom_op(
        "edgec::own_kernel",
        own_kernel,
        mutates_args=(),
        schema="(str kernel, Tensor[] arrays) -> Tensor[]",
    )

    def empty(kernel: str, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [leaf.new_empty(leaf.shape) for leaf in _answer(kernel, arrays)]

    made.register_fake(empty)
    return made


def _answer(text: str, arrays: Sequence[Any]) -> list[Any]:
    import torch.utils._pytree as pytree

    return list(pytree.tree_leaves(_REFERENCES[text](*arrays)))
