"""Loops of a PyTorch model over what a mask chose, made over all that it could have chosen.

`for expert in (counts > 0).nonzero():` turns as often as data say, which no graph can. Where a turn
for what was not chosen changes nothing (an expert without tokens), the loop may take all. Whether
that is so is tried: the model is run both ways, with inputs that leave something out.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

__all__ = ["over_all", "turns_change_nothing"]


@contextlib.contextmanager
def over_all() -> Iterator[list[int]]:
    """Let loops over the result of `nonzero` take all places; gives how many each loop added."""
    import torch

    own = {name: getattr(torch.Tensor, name) for name in ("nonzero", "__iter__", "__format__")}
    own_function = torch.nonzero
    made: list[tuple[Any, tuple[int, ...]]] = []
    added: list[int] = []

    def nonzero(tensor: Any, *, as_tuple: bool = False) -> Any:
        found = own["nonzero"](tensor, as_tuple=as_tuple)
        if not as_tuple and all(isinstance(size, int) for size in tensor.shape):
            made.append((found, tuple(tensor.shape)))
        return found

    def turns(tensor: Any) -> Iterator[Any]:
        shape = next((shape for found, shape in made if found is tensor), None)
        if shape is None:
            return iter(own["__iter__"](tensor))
        places = list(itertools.product(*map(range, shape)))
        if isinstance(tensor.shape[0], int):
            added.append(len(places) - tensor.shape[0])
        return iter([torch.tensor(place, device=tensor.device) for place in places])

    def text(tensor: Any, spec: str) -> str:
        # Only a plain tensor writes the number that it is; a traced one would write its kind.
        if tensor.dim() == 0:
            with contextlib.suppress(Exception):  # its value depends on data
                return format(tensor.item(), spec)
        return str(own["__format__"](tensor, spec))

    torch.nonzero = nonzero
    for name, function in (("nonzero", nonzero), ("__iter__", turns), ("__format__", text)):
        setattr(torch.Tensor, name, function)
    try:
        yield added
    finally:
        torch.nonzero = own_function
        for name, function in own.items():
            setattr(torch.Tensor, name, function)


def turns_change_nothing(
    run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether turns for what was not chosen were seen, and made no difference.

    Args:
        run: calls the model.
        args: its example inputs.
        kwargs: those by name.
    """
    import torch.utils._pytree as pytree

    given = (tuple(args), dict(kwargs))
    for axis in (None, 0, 1):
        inputs = given if axis is None else pytree.tree_map(partial(_alike, axis), given)
        try:
            plain = pytree.tree_leaves(run(*inputs[0], **inputs[1]))
            with over_all() as added:
                whole = pytree.tree_leaves(run(*inputs[0], **inputs[1]))
        except Exception:  # noqa: BLE001 - whatever the model says to a turn that it never made
            return False
        if len(plain) != len(whole) or not all(map(_same, plain, whole)):
            return False
        if any(added):
            return True
    return False


def _alike(axis: int, value: Any) -> Any:
    """A tensor that is the same all along an axis: then a router chooses the same for each."""
    import torch

    if not isinstance(value, torch.Tensor) or value.ndim <= axis or not value.shape[axis]:
        return value
    return value.narrow(axis, 0, 1).expand_as(value).clone()


def _same(one: Any, other: Any) -> bool:
    import torch

    if not isinstance(one, torch.Tensor):
        return bool(one == other)
    return one.shape == other.shape and bool(torch.allclose(one, other, 0, 0, equal_nan=True))
