"""Which of a function's dispatches take the time: edgert times its own, IREE's runtime others."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgec.runtime.benchmark import example_inputs
from edgec.runtime.device import Device, device_choices
from edgec.runtime.dispatch_times import Profile
from edgec.runtime.edgert_profiler import profile_by_edgert
from edgec.runtime.errors import DeviceMissing, InputError, ModuleMismatch, UsageError
from edgec.runtime.fitness import check_fits, default_device
from edgec.runtime.iree_profiler import profile_by_iree
from edgec.runtime.module import Module
from edgec.runtime.parameters import weights_path
from edgec.runtime.signature import Signature

__all__ = ["profile"]


def profile(
    path: Path | str | Module,
    *,
    function: str | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    device: str | Device | None = None,
    weights: Path | str | None = None,
    calls: int = 10,
) -> Profile:
    """Call one function `calls` times and say how long each of its dispatches took.

    Arguments are those of `bench`. edgert runs kernels one after the other then, and times them: on
    the CPU by this machine's clock, on a GPU by that one's own. Modules that edgert does not take
    are timed by IREE's runtime; `Profile.device` says which.

    Raises:
        UsageError: fewer than one call.
        DeviceError: the profiler failed.
        EdgecError: the module does not fit the device.
    """
    if calls < 1:
        raise UsageError("a profile needs at least one call")
    module = path if isinstance(path, Module) else Module.read(path)
    signature = _choose(module, function)
    arrays = example_inputs(signature) if inputs is None else list(inputs)
    signature.refuse_other_count(len(arrays))
    file = weights_path(module, weights)
    wanted = default_device(module) if device is None else device
    *better, last = (wanted,) if isinstance(wanted, Device) else device_choices(wanted)
    for choice in better:
        with contextlib.suppress(DeviceMissing, ModuleMismatch):
            return _profile_on(choice, module, signature, arrays, file, calls)
    return _profile_on(last, module, signature, arrays, file, calls)


def _profile_on(
    choice: str | Device,
    module: Module,
    signature: Signature,
    arrays: Sequence[np.ndarray],
    weights: Path | None,
    calls: int,
) -> Profile:
    device = Device.open(choice)
    check_fits(module, device)
    by = profile_by_iree if device.native_uri else profile_by_edgert
    return by(module, signature, arrays, device=device, weights=weights, calls=calls)


def _choose(module: Module, name: str | None) -> Signature:
    if name is None:
        name = next(iter(module.signatures), "")
    if name not in module.signatures:
        raise InputError(
            f"{module.path} has no function {name!r}",
            hint=f"it has {', '.join(module.signatures) or 'none'}",
        )
    return module.signatures[name]
