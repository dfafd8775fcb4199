"""`torch.arange` from one tensor to another that is so many more, as a range of a known length.

`torch.arange(past, past + count)` over a cache's length reads both ends' values, and a graph knows
nothing of two values that were read. The length is known where the end is the start and a number.
"""

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["known_ranges"]


@contextlib.contextmanager
def known_ranges() -> Iterator[None]:
    """Remember what is added to whole numbers, and count on from the start of such a range."""
    import torch
    from torch.overrides import TorchFunctionMode

    adds = (torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__)
    sums: dict[int, tuple[Any, Any, int]] = {}
    """By the id of a sum: it and the first summand, weakly, and the second."""

    def parts(value: Any) -> tuple[Any, int]:
        """A tensor as another and a number."""
        found = sums.get(id(value))
        if found is None or found[0]() is not value or found[1]() is None:
            return value, 0
        return found[1](), found[2]

    class Ranges(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            given = kwargs or {}
            if function in adds and len(args) == 2 and not given:
                made = function(*args)
                one, other = args if isinstance(args[0], torch.Tensor) else args[::-1]
                if _is_whole(one) and type(other) is int:
                    base, number = parts(one)
                    sums[id(made)] = (weakref.ref(made), weakref.ref(base), number + other)
                return made
            if function is torch.arange and len(args) == 2 and all(map(_is_whole, args)):
                (start, before), (end, after) = map(parts, args)
                if start is end and after >= before:
                    dtype = given.get("dtype") or args[0].dtype
                    return (torch.arange(after - before, **given) + args[0]).to(dtype)
            return function(*args, **given)

    with Ranges():
        yield


def _is_whole(value: Any) -> bool:
    """Whether it is one whole number as a tensor."""
    import torch

    return isinstance(value, torch.Tensor) and value.ndim == 0 and value.dtype == torch.int64
