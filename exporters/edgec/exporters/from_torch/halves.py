"""Products and convolutions of halves as PyTorch runs them on a processor without such: in f32.

PyTorch 2.13 has f16 kernels of its own only for processors that multiply f16; on any other a
convolution of 64 channels on 64 x 64 pixels takes 385 ms of a core where f32 takes 5.5, and a
product of 512 x 512 takes 133 where f32 takes 12. Sums in f32 of the same halves, rounded once at
the end, are what GPUs compute, and no less exact.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["halves_summed_in_f32"]


@contextlib.contextmanager
def halves_summed_in_f32(tensors: Iterable[Any]) -> Iterator[None]:
    """Within, operations that sum products of f16 run in f32 and round their results.

    Args:
        tensors: what a model computes with; nothing changes if none of them is f16.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    if all(tensor.dtype is not torch.float16 for tensor in tensors):
        yield
        return
    aten = torch.ops.aten
    summing = {
        *(aten.convolution.default, aten.mm.default, aten.bmm.default),
        *(aten.addmm.default, aten.baddbmm.default, aten.mv.default, aten.addmv.default),
    }

    class Wide(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, _: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            given = [value for value in args if isinstance(value, torch.Tensor)]
            if function not in summing or any(v.dtype is not torch.float16 for v in given):
                return function(*args, **kwargs)
            wide = [v.float() if isinstance(v, torch.Tensor) else v for v in args]
            return function(*wide, **kwargs).half()

    with Wide():
        yield
