"""A PyTorch model's answers with every number on the way moved by rounding.

Terms that cancel leave nothing but rounding: the gradient of a key's bias in attention is 0 in
exact arithmetic. How large that comes out depends on the terms and on the order of their sum, and
not on the inputs' last digits, so moving those alone does not say how far two right ways may be
apart.

A norm or a softmax is one operation to PyTorch and several to others: its mean, moved by rounding,
moves all that it is taken from the same way, which no later sum takes back. So such are run as what
they are made of. And a sum is not known to its own last place but to that of its terms' sizes,
whatever their order: that much it is moved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["rounding"]

_SEVERAL = (
    *("_native_batch_norm_legit_functional", "native_batch_norm_backward"),
    *("native_layer_norm", "native_layer_norm_backward"),
    *("native_group_norm", "native_group_norm_backward"),
    *("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data"),
)


@contextmanager
def rounding(seed: int) -> Iterator[None]:
    """Within, the results of all that computes are moved by some units of their last place."""
    import numpy as np
    import torch
    from torch._decomp import get_decompositions
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    from edgec.exporters.from_torch.values import to_numpy, to_tensor
    from edgec.runtime.conditioning import moved

    random = np.random.default_rng(seed)
    aten = torch.ops.aten
    means = {aten.sum: aten.sum, aten.mean: aten.mean, aten.var_mean: aten.mean}
    parts = get_decompositions([getattr(aten, name) for name in _SEVERAL])

    def shift(value: Any, sizes: Any) -> None:
        """Move a sum by the last place of what its terms' sizes sum to."""
        far = random.uniform(-1, 1, tuple(value.shape)) * torch.finfo(value.dtype).eps
        value.add_(to_tensor(far).to(value.dtype) * sizes)

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value.copy_(to_tensor(moved(to_numpy(value, "a value on the way"), random)))
        return value

    class Rounding(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, _: Any, given: Any = (), named: Any = None
        ) -> Any:
            if function in parts:
                with self:
                    return parts[function](*given, **(named or {}))
            made = function(*given, **(named or {}))
            returns = function._schema.returns
            # Views, and what is written in place, are no results of their own.
            own = all(each.alias_info is None for each in returns)
            of_sizes = means.get(function.overloadpacket)
            if of_sizes is not None and given[0].is_floating_point():
                how = {name: value for name, value in (named or {}).items() if name != "correction"}
                sums = made[1] if isinstance(made, tuple) else made
                shift(sums, of_sizes(given[0].abs(), *given[1:], **how))
                return made
            return tree_map(move, made) if own else made

    with torch.no_grad(), Rounding():
        yield
