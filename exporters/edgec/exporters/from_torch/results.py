"""What a PyTorch model gives back to tensors in containers that torch.export sees into.

Beside tensors a model may return an object that holds some (a cache, a distribution), or a number.
Of an object its attributes that hold tensors are a dict; a number is a tensor without dimensions.
An object among the arguments is refused: what it does with its tensors nobody sees.
"""

import dataclasses
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from edgec.exporters.from_torch.capture import Callee
from edgec.runtime.errors import UnsupportedOp

__all__ = ["plain", "refuse_objects", "taken_apart"]

_LOG = logging.getLogger("edgec.exporters")
_LANGUAGE = "; a language model is `edgec export hf:FOLDER`, with its cache on the device"


def refuse_objects(made: Callee, given: Mapping[str, Any]) -> None:
    """Refuse arguments that are neither tensors nor containers of them, and hold some.

    Args:
        made: what takes them.
        given: the arguments by name.

    Raises:
        UnsupportedOp: one is such an object; at the line of the function that takes it.
    """
    import torch.utils._pytree as pytree

    for name, value in given.items():
        for leaf in pytree.tree_leaves(value):
            if _inside(leaf):
                kind = type(leaf).__name__
                raise UnsupportedOp(
                    f"the argument {name} is a {kind}, an object that holds tensors: "
                    "torch.export takes tensors, and tuples, lists, dicts and dataclasses of them",
                    where=made.place,
                    hint=f"take its tensors as arguments, and make the {kind} inside"
                    f"{_LANGUAGE if _is_cache(leaf) else ''}",
                )


def taken_apart(made: Callee, answer: Any) -> Callee:
    """The callee with plain results, where an answer of its is not plain already."""
    import torch.utils._pytree as pytree

    leaves = pytree.tree_leaves(answer)
    objects = [leaf for leaf in leaves if _inside(leaf)]
    if made.program is not None or not (objects or any(map(_is_number, leaves))):
        return made
    for kind, leaf in {type(leaf).__name__: leaf for leaf in objects}.items():
        _LOG.warning(
            "%s returns a %s, whose tensors become outputs; %s",
            made.place or "the model",
            kind,
            f"call the model with use_cache=False where they are not wanted{_LANGUAGE}"
            if _is_cache(leaf)
            else "return what is wanted of them alone",
        )
    run = made.run

    def plainly(*args: Any, **kwargs: Any) -> Any:
        return plain(run(*args, **kwargs))

    return dataclasses.replace(made, run=plainly, answers=plain)


def plain(value: Any) -> Any:
    """A nested value with its objects and numbers replaced; what holds no tensor stays.

    The nesting is as `values.skeleton` has it.
    """
    import torch.utils._pytree as pytree

    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, list | tuple):
        return type(value)(plain(child) for child in value)
    if _is_number(value):
        return _tensor(value)
    held = _inside(value)
    if held:
        return held
    leaves = pytree.tree_leaves(value)
    if len(leaves) == 1 and leaves[0] is value:
        return value
    return tuple(plain(leaf) for leaf in leaves)


def _inside(value: Any) -> dict[str, Any]:
    """The attributes of an object in which there are tensors; empty where it is no such object."""
    held = _tensors_of(value, {})
    return held if isinstance(held, dict) and not isinstance(value, Mapping) else {}


def _tensors_of(value: Any, known: dict[int, Any]) -> Any:
    """The tensors of a value in containers; None where there are none.

    `known` has what was found in each object before; None while it is looked through.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value
    if id(value) in known or isinstance(value, type | ModuleType | torch.nn.Module):
        return known.get(id(value))
    known[id(value)] = None
    if isinstance(value, list | tuple):
        listed = [_tensors_of(child, known) for child in value]
        known[id(value)] = listed if any(child is not None for child in listed) else None
        return known[id(value)]
    attributes = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    named = {str(key): _tensors_of(child, known) for key, child in attributes.items()}
    known[id(value)] = {key: child for key, child in named.items() if child is not None} or None
    return known[id(value)]


def _is_cache(value: Any) -> bool:
    """Whether it is what transformers keeps of the tokens before, which its models make unasked."""
    return any(
        kind.__name__ == "Cache" and kind.__module__.startswith("transformers.")
        for kind in type(value).__mro__
    )


def _is_number(value: Any) -> bool:
    import torch

    return isinstance(value, bool | int | float | torch.SymBool | torch.SymInt | torch.SymFloat)


def _tensor(number: Any) -> Any:
    import torch

    if isinstance(number, bool | torch.SymBool):
        dtype = torch.bool
    elif isinstance(number, int | torch.SymInt):
        dtype = torch.int64
    else:
        dtype = torch.get_default_dtype()
    return torch.full((), number, dtype=dtype)
