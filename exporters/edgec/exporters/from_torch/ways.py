"""What a PyTorch model does otherwise while it is traced than when it is run, made as in a run."""

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

__all__ = ["is_raised_by_model", "unmoved", "unnoticed"]


def is_raised_by_model(error: Exception) -> bool:
    """Whether a line outside of torch failed, which did not when the model was run."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")).partition(".")[0] != "torch"


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Let a model take the ways that it takes when it is run: it may ask whether it is traced."""
    import torch

    own = {name: getattr(torch.compiler, name) for name in ("is_compiling", "is_exporting")}
    for name in own:
        setattr(torch.compiler, name, lambda: False)
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(torch.compiler, name, function)


@contextlib.contextmanager
def unmoved() -> Iterator[None]:
    """Let `module.to` do nothing where a module is there already, in that type.

    Routers of experts do this in each call. Traced weights are no tensors that torch could
    exchange, not even for themselves.
    """
    import torch

    own = torch.nn.Module.to

    def to(module: Any, *args: Any, **kwargs: Any) -> Any:
        device, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
        held = [*module.parameters(), *module.buffers()]
        moves = device is not None and any(tensor.device != device for tensor in held)
        changes = dtype is not None and any(
            tensor.dtype != dtype for tensor in held if tensor.is_floating_point()
        )
        if moves or changes or layout is not None:
            return own(module, *args, **kwargs)
        return module

    torch.nn.Module.to = to
    try:
        yield
    finally:
        torch.nn.Module.to = own
