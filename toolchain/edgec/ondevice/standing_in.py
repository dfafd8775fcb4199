"""A module for another processor proved on this machine: its golden calls made in qemu."""

from collections.abc import Callable
from pathlib import Path

from edgec.ondevice.deployment import deploy
from edgec.ondevice.machines import MACHINES
from edgec.ondevice.qemu import Qemu
from edgec.runtime import Tolerance, compare_call
from edgec.runtime.comparison import CallResult, GoldenResult
from edgec.runtime.errors import (
    CompileError,
    DeviceError,
    DeviceMissing,
    InputError,
    MissingExtra,
    ModuleMismatch,
    UsageError,
)
from edgec.runtime.golden import Golden
from edgec.runtime.module import Module

__all__ = ["emulated"]

_SECONDS = 60.0
"""What an emulator may take, which is some twenty times slower than a processor."""


def emulated(
    module: Path,
    golden: Golden,
    weights: Path | None,
    tolerance: Tolerance | None,
    *,
    tell: Callable[[str], None],
) -> tuple[str, GoldenResult] | None:
    """What computed the golden answers and how they compare; None where nothing could.

    Args:
        module: compiled for a CPU.
        golden: calls of one function, and the framework's answers.
        weights: its weights file, if it keeps them outside.
        tolerance: how far answers may be off; None for each type's default.
        tell: is told what takes long, and why nothing could compute them.
    """
    found = Module.read(module)
    machine = next((m for m in MACHINES if f"embedded-elf-{m.name}" in found.formats), None)
    names = {call.signature for call in golden.calls}
    if machine is None or len(names) != 1:
        return None
    signature = found.signatures[names.pop()]
    try:
        with deploy(
            found,
            Qemu(machine.kernels[0], seconds=_SECONDS),
            weights=weights,
            threads=1,
            tell=tell,
            warn=lambda _: None,
        ) as there:
            called = there.call(signature, [call.inputs for call in golden.calls])
    except (
        *(CompileError, DeviceError, DeviceMissing, InputError),
        *(MissingExtra, ModuleMismatch, UsageError),
    ) as error:
        tell(f"nothing stands in for {found.facts.target}: {error.what}")
        return None
    outputs = tuple(spec.name for spec in signature.outputs)
    calls = tuple(
        CallResult(
            signature=call.signature, names=outputs, outputs=compare_call(call, answers, tolerance)
        )
        for call, answers in zip(golden.calls, called.results, strict=True)
    )
    return machine.emulator, GoldenResult(calls=calls)
