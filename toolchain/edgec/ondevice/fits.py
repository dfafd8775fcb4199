"""A module against a device: which of its machines the module is for, and what its CPU lacks.

Asked before the module goes there, so that the answer is the name of the best target for the device
and not a refusal from far away.
"""

from collections.abc import Mapping

from edgec.ondevice.machines import Machine, suggest_target
from edgec.ondevice.transport import Facts
from edgec.runtime.errors import ModuleMismatch
from edgec.runtime.fitness import check_loads
from edgec.runtime.module import Module

__all__ = ["check_fits", "choose_machine", "features_to_ask"]

_FORMAT = "embedded-elf-"


def choose_machine(module: Module, facts: Facts) -> Machine:
    """The machine to run a module as; a 64-bit phone may be one of 32 bits, too.

    Without one that fits it is the device's own; `check_fits` says so.
    """
    for machine in facts.machines:
        if f"{_FORMAT}{machine.name}" in module.formats:
            return machine
    return facts.machines[0]


def features_to_ask(module: Module, machine: Machine) -> tuple[str, ...]:
    """Features of processors that matter: those the module needs, those that targets ask for."""
    from edgec.targets import catalogue

    asked = {
        name
        for target in catalogue()
        if target.cpu is not None and target.cpu.triple.startswith(machine.llvm)
        for name in target.required_features
    }
    return tuple(sorted(asked | set(module.facts.cpu_features)))


def check_fits(module: Module, machine: Machine, features: Mapping[str, bool], name: str) -> None:
    """Refuse a module that does not run on a device.

    Args:
        module: the module.
        machine: what it would run as.
        features: whether the CPU has each; one that edgert does not know is not in it.
        name: what messages call the device.

    Raises:
        ModuleMismatch: it is of another version, holds code for something else, or asks for more
            than the CPU has; the hint names the target that fits.
    """
    check_loads(module)
    hint = f"compile it with --target={suggest_target(machine, features)}"
    if module.formats and f"{_FORMAT}{machine.name}" not in module.formats:
        made = module.facts.target or ", ".join(module.formats)
        what = f"{module.path} was compiled for {made}, and {name} is {machine.name}"
        if not any(code.startswith(_FORMAT) for code in module.formats):
            what += "; edgert, which would run it there, runs code for CPUs"
        raise ModuleMismatch(what, hint=hint)
    missing = [need for need in module.facts.cpu_features if not features.get(need, True)]
    if missing:
        raise ModuleMismatch(
            f"{module.path} was compiled for a CPU with {', '.join(missing)}, "
            f"which that of {name} has not",
            hint=hint,
        )
