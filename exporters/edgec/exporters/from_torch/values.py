"""PyTorch values as edgec knows them: tensors as NumPy arrays, nested values as skeletons."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError
from edgec.runtime.tree import Tree

__all__ = [
    "as_tensors",
    "dtype_of",
    "register_dataclasses",
    "skeleton",
    "to_numpy",
    "to_tensor",
]

_DTYPES = {
    "torch.bool": DType.BOOL,
    "torch.int8": DType.I8,
    "torch.int16": DType.I16,
    "torch.int32": DType.I32,
    "torch.int64": DType.I64,
    "torch.uint8": DType.U8,
    "torch.uint16": DType.U16,
    "torch.uint32": DType.U32,
    "torch.uint64": DType.U64,
    "torch.float16": DType.F16,
    "torch.bfloat16": DType.BF16,
    "torch.float32": DType.F32,
    "torch.float64": DType.F64,
    "torch.complex64": DType.C64,
    "torch.complex128": DType.C128,
}


def dtype_of(dtype: Any, what: str) -> DType:
    """The DType of a `torch.dtype`; `what` names the tensor in the error.

    Raises:
        ExportError: edgec has no such element type (quantised, 8-bit float …).
    """
    known = _DTYPES.get(str(dtype))
    if known is None:
        raise ExportError(
            f"{what} has the element type {dtype}, which edgec does not have",
            hint=f"convert it to one of {', '.join(d.value for d in DType)}",
        )
    return known


def to_numpy(tensor: Any, what: str) -> np.ndarray:
    """The tensor as an array, sharing memory where it can; bf16 through ml_dtypes.

    Raises:
        ExportError: edgec has no such element type, or the tensor is sparse.
    """
    import torch

    dtype = dtype_of(tensor.dtype, what)
    if tensor.layout is not torch.strided:
        raise ExportError(
            f"{what} is a tensor of layout {tensor.layout}", hint="make it dense with .to_dense()"
        )
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if dtype is DType.BF16:
        bits: np.ndarray = plain.contiguous().view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: np.ndarray = plain.numpy()
    return array


def to_tensor(array: Any) -> Any:
    """The array as a tensor with memory of its own; bf16 through its bits."""
    import torch

    array = np.array(array)
    if array.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_tensors(value: Any) -> Any:
    """A nested value with its arrays made tensors, and every tensor detached with its own memory.

    Exporting and running may change inputs in place; the caller's stay as they are.
    """
    import torch
    import torch.utils._pytree as pytree

    def own(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone()
        return to_tensor(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf

    return pytree.tree_map(own, value)


def register_dataclasses(value: Any) -> None:
    """Make torch see into the dataclasses of a value, as it does into dicts.

    A dataclass that torch does not know is one opaque leaf to it, which it refuses to export.
    """
    import torch.utils._pytree as pytree
    from torch.export import register_dataclass

    for leaf in pytree.tree_leaves(value):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            register_dataclass(type(leaf))
            register_dataclasses([getattr(leaf, f.name) for f in dataclasses.fields(leaf)])


def skeleton(value: Any, number: Callable[[Any], int | None]) -> Tree:
    """The nesting of a value, each leaf replaced by what `number` gives for it.

    Dataclasses (also Hugging Face's model outputs) and named tuples become dicts of their fields;
    a container only torch knows becomes a tuple. Leaves are visited in torch's order.
    """
    import torch.utils._pytree as pytree

    def walk(node: Any) -> Tree:
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return {name: walk(getattr(node, name)) for name in node._fields}
        if isinstance(node, Mapping):
            return {str(key): walk(child) for key, child in node.items()}
        if dataclasses.is_dataclass(node) and not isinstance(node, type):
            fields = {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
            # torch leaves out a dataclass's empty fields instead of counting None as a leaf.
            return {k: None if child is None else walk(child) for k, child in fields.items()}
        if isinstance(node, tuple):
            return tuple(walk(child) for child in node)
        if isinstance(node, list):
            return [walk(child) for child in node]
        leaves = pytree.tree_leaves(node)
        if len(leaves) == 1 and leaves[0] is node:
            return number(node)
        return tuple(walk(child) for child in leaves)

    return walk(value)
