"""The device that a program is compiled for: is it there, and will it run it? Asked first.

A compile takes seconds to minutes, and what is missing is missing before it.
"""

from edgec.cli.elsewhere import threads_there
from edgec.ondevice import connect, refuse_target
from edgec.runtime import Device
from edgec.runtime.cpu import architecture, host_features, missing_features
from edgec.runtime.drivers import DRIVERS
from edgec.runtime.errors import ModuleMismatch
from edgec.runtime.fitness import driver_uri
from edgec.targets import Target, find

__all__ = ["refuse_beforehand", "target_of"]

_HOST = "leave --target out, or choose cpu, for this machine"


def refuse_beforehand(target: str, *, device: str | None, on: str | None) -> None:
    """Refuse a device that is not there, or runs nothing of a target.

    Args:
        target: the name of what is to be compiled for.
        device: a device's URI; None for the one that such modules run on.
        on: another machine, as `--on` names it; None for this one.

    Raises:
        DeviceMissing: it is not there; the message says why and what mends it.
        ModuleMismatch: it runs no modules for the target.
        MissingExtra: edgert has to be built for it, and what builds it is missing.
        UsageError: a name of a device makes no sense.
        TargetError: there is no such target.
    """
    if on is None:
        _refuse_here(find(target), device)
    else:
        threads_there(device)
        refuse_target(find(target), connect(on))


def target_of(device: Device) -> str:
    """The target to compile for where a module is to run on a device."""
    kind = driver_uri(device.runs)
    return "vulkan" if kind == "gpu" else kind


def _refuse_here(target: Target, device: str | None) -> None:
    wanted = driver_uri(target.driver)
    if wanted not in (*DRIVERS, "cpu", "gpu"):
        raise ModuleMismatch(
            f"a program compiled for {target.name} runs elsewhere than on a device of this machine",
            hint="verify it for cpu; a package (`edgec package`) proves itself where it runs",
        )
    if target.cpu is not None and target.isa != architecture():
        raise ModuleMismatch(
            f"a program compiled for {target.name} does not run on this machine, which is "
            f"{architecture()}",
            hint=f"{_HOST}; --on names another one",
        )
    found = Device.open(device or wanted)
    if driver_uri(found.runs) != wanted:
        raise ModuleMismatch(
            f"a program compiled for {target.name} does not run on {found.uri}",
            hint=f"add --target={target_of(found)}, or choose --device={wanted}",
        )
    missing = missing_features(target.required_features, host_features())
    if missing and target.cpu is not None:
        raise ModuleMismatch(
            f"a program compiled for {target.name} needs a CPU with {', '.join(missing)}, which "
            "this one has not",
            hint=_HOST,
        )
