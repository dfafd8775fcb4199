"""What to do with a module that was just compiled: run it here, run it there, or pack it."""

import platform
import shlex
from pathlib import Path

from edgec.cli.signatures import example_command
from edgec.runtime import Module
from edgec.runtime.golden import Golden
from edgec.targets import Target

__all__ = ["next_step"]

_PACKED = {"wasm32": "--web", "arm64-apple-ios": "--ios"}
_AWAY = {"aarch64": "adb:", "armv7a": "adb:", "riscv64": "ssh:HOST"}


def next_step(module: Module, target: Target, program: Path) -> str:
    """A command for a module.

    Args:
        module: what was compiled.
        target: what for.
        program: what it was compiled from; its golden answers lie beside it.
    """
    triple = target.cpu.triple if target.cpu else ""
    for start, kind in _PACKED.items():
        if triple.startswith(start):
            return shlex.join(["edgec", "package", str(program), kind])
    signature = next(iter(module.signatures.values()), None)
    if signature is None:
        return shlex.join(["edgec", "inspect", str(module.path)])
    golden = Golden.path_for(program)
    command = example_command("run", module, signature, golden=golden if golden.exists() else None)
    machine = triple.partition("-")[0]
    if machine not in _AWAY or machine == platform.machine():
        return command
    return f"{command} --on={_AWAY[machine]}"
