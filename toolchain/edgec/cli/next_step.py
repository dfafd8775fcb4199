"""What to do with a module that was just compiled: run it here, run it there, or pack it."""

import platform
import shlex
from pathlib import Path

from edgec.cli.signatures import example_command
from edgec.runtime import Module
from edgec.runtime.golden import Golden
from edgec.runtime.text import TextFacts
from edgec.targets import Target

__all__ = ["next_step"]

_PACKED = {"wasm32": "--web", "arm64-apple-ios": "--ios"}
_AWAY = {"aarch64": "adb:", "armv7a": "adb:", "riscv64": "ssh:HOST"}


def next_step(module: Module, target: Target, program: Path | None, source: str) -> str:
    """A command for a module.

    Args:
        module: what was compiled.
        target: what for.
        program: the file it was compiled from, if any; its golden answers lie beside it.
        source: what the user named.

    Returns:
        The command; nothing for a module that is in no file, since it went into a pipe or device.
    """
    if not module.path.is_file():
        return ""
    triple = target.cpu.triple if target.cpu else ""
    for start, kind in _PACKED.items():
        if triple.startswith(start):
            return shlex.join(["edgec", "package", source, kind])
    machine = triple.partition("-")[0]
    is_here = machine not in _AWAY or machine == platform.machine()
    if module.text and is_here:
        return shlex.join(["edgec", *_asking(TextFacts.parse(module.text), str(module.path))])
    signature = next(iter(module.signatures.values()), None)
    if signature is None:
        return shlex.join(["edgec", "inspect", str(module.path)])
    golden = None if program is None else Golden.path_for(program)
    known = golden if golden is not None and golden.exists() else None
    command = example_command("run", module, signature, golden=known)
    return command if is_here else f"{command} --on={_AWAY[machine]}"


def _asking(facts: TextFacts, module: str) -> list[str]:
    """What asks a language model: a conversation, where it was made for one."""
    if facts.template and not facts.source:
        return ["chat", module]
    return ["generate", module, "@FEATURES.npy" if len(facts.source) > 1 else "Once upon a time"]
