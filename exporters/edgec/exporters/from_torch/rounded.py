"""A PyTorch model's answers with every number on the way moved by rounding.

Terms that cancel leave nothing but rounding: the gradient of a key's bias in attention is 0 in
exact arithmetic. How large that comes out depends on the terms and on the order of their sum, and
not on the inputs' last digits, so moving those alone does not say how far two right ways may be
apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["rounding"]


@contextmanager
def rounding(seed: int) -> Iterator[None]:
    """Within, the results of all that computes are moved by some units of their last place."""
    import numpy as np
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    from edgec.exporters.from_torch.values import to_numpy, to_tensor
    from edgec.runtime.conditioning import moved

    random = np.random.default_rng(seed)

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value.copy_(to_tensor(moved(to_numpy(value, "a value on the way"), random)))
        return value

    class Rounding(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, _: Any, given: Any = (), named: Any = None
        ) -> Any:
            made = function(*given, **(named or {}))
            returns = function._schema.returns
            # Views, and what is written in place, are no results of their own.
            own = all(each.alias_info is None for each in returns)
            return tree_map(move, made) if own else made

    with torch.no_grad(), Rounding():
        yield
