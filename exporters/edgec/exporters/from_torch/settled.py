"""Decisions of a PyTorch model on numbers that no input has a part in, taken while it is exported.

`if mask.any():` over a mask that the model makes itself, or a padding worked out from buffers:
torch.export sees a number of unknown value. Such a number is the same in every call. So the model
is run once, each number that it reads from a tensor written down with what had a part in it, and
torch.export is given those that are constants.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Number", "is_on_data", "numbers_read", "settled", "sized_by_data"]


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that a model reads from a tensor.

    Attributes:
        place: the file, line and function outside of torch that read it.
        value: what it is in every call; None where an input, a state or chance has a part in it.
    """

    place: tuple[str, int, str]
    value: int | float | bool | None


def is_on_data(error: Exception) -> bool:
    """Whether torch.export gave up because the model decides on the value of a tensor."""
    return "data-dependent" in str(error).lower() or "DataDependent" in type(error).__name__


def numbers_read(run: Callable[[], Any], varying: Sequence[Any]) -> list[Number]:
    """The numbers that a run reads from tensors, in order.

    Args:
        run: calls the model.
        varying: the tensors that differ from call to call.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    watch = _Watch(varying)

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            watch.ran(function, (args, kwargs or {}), result)
            return result

    with Mode():
        run()
    return watch.numbers


@contextlib.contextmanager
def settled(numbers: Sequence[Number]) -> Iterator[None]:
    """Let torch.export read these numbers, at each place in order, instead of unknown ones."""
    import torch
    from torch._subclasses.fake_impls import op_implementations_dict

    waiting: dict[tuple[str, int, str], list[Number]] = {}
    for number in numbers:
        waiting.setdefault(number.place, []).append(number)
    operations = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
    # torch takes the first out when a program was decomposed; it is then the second.
    own = {o: op_implementations_dict[o] for o in operations if o in op_implementations_dict}

    def read(mode: Any, function: Any, tensor: Any) -> Any:
        following = waiting.get(_place())
        value = following.pop(0).value if following else None
        if value is not None:
            return value
        return own[function](mode, function, tensor)

    op_implementations_dict.update(dict.fromkeys(own, read))
    try:
        yield
    finally:
        op_implementations_dict.update(own)


def sized_by_data(graph: Any) -> Any:
    """The first node of a graph that makes a tensor of a size that depends on data, or None."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    for node in graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, list | tuple) else [values]:
            if free_unbacked_symbols(getattr(value, "shape", ())):
                return node
    return None


class _Watch:
    """Which memory what varies has a part in, and the numbers read."""

    def __init__(self, varying: Sequence[Any]) -> None:
        self._varying = {_memory(tensor) for tensor in varying}
        self.numbers: list[Number] = []

    def ran(self, function: Any, given: Any, result: Any) -> None:
        import torch

        inputs = {_memory(tensor) for tensor in _tensors(given)}
        by_chance = torch.Tag.nondeterministic_seeded in function.tags
        varies = by_chance or bool(inputs & self._varying)
        if function is torch.ops.aten._local_scalar_dense.default:
            self.numbers.append(Number(place=_place(), value=None if varies else result))
        made = {_memory(tensor) for tensor in _tensors(result)}
        if varies:
            changed = inputs if function._schema.is_mutable else set()
            self._varying |= made | changed
        else:
            self._varying -= made - inputs  # memory that something else had before


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(value: Any) -> list[Any]:
    import torch
    import torch.utils._pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _place() -> tuple[str, int, str]:
    """The innermost line that runs outside of torch and of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _is_inside(frame: Any) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith(f"{__package__}.") or name.partition(".")[0] == "torch"
