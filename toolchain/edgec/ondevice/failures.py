"""What edgert said before it failed on a device, or how it ended, to an error of edgec's tree."""

from edgec.ondevice.transport import Answer
from edgec.runtime.errors import DeviceError, EdgecError, ModuleMismatch
from edgec.runtime.module import Module

__all__ = ["failure"]

_REFUSALS = ("the module was compiled for", "the module needs", "the module calls")
"""How edgert begins where a module does not fit."""

_SIGNALS = {
    4: "an instruction that its CPU does not have",
    6: "its own stop",
    7: "a bad address",
    9: "the system: probably the memory did not suffice",
    11: "a bad address",
}


def failure(answer: Answer, module: Module, name: str, folder: str) -> EdgecError:
    """The error for a program that failed on a device.

    Args:
        answer: what came of it; its code is not 0.
        module: what it was to run.
        name: what messages call the device.
        folder: where the program is.
    """
    lines = [line.strip() for line in answer.said.splitlines() if line.strip()]
    said = next((line[7:] for line in reversed(lines) if line.startswith("error: ")), "")
    last = lines[-1] if lines else f"exit code {answer.code}"
    if "No space left" in answer.said:
        return DeviceError(f"{name} ran out of space: {said or last}", hint="free some on it")
    if said.startswith(_REFUSALS):
        return ModuleMismatch(f"{module.path} does not run on {name}: {said}")
    if said:
        return DeviceError(f"{module.path} failed on {name}: {said}")
    if answer.code in (126, 127):
        return DeviceError(
            f"{name} does not run programs in {folder}: {last}",
            hint="set TMPDIR there to a folder that allows it" if name.startswith("ssh") else None,
        )
    if answer.code > 128:
        reason = _SIGNALS.get(answer.code - 128, f"signal {answer.code - 128}")
        return DeviceError(f"edgert was ended on {name} by {reason}")
    return DeviceError(f"edgert failed on {name}: {last}")
