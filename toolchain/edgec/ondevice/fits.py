"""A module against a device: which of its machines the module is for, and what its CPU lacks.

Asked before the module goes there, so that the answer is the name of a target for the device and
not a refusal from far away. What the machine alone decides is asked before edgert is built for it.
"""

from collections.abc import Mapping

from edgec.ondevice.edgert_command import refuse_unbuildable
from edgec.ondevice.machines import Machine, suggest_target
from edgec.ondevice.transport import Facts, Transport
from edgec.runtime.errors import ModuleMismatch
from edgec.runtime.fitness import check_loads
from edgec.runtime.module import Module
from edgec.targets import Target

__all__ = ["check_fits", "check_machine", "choose_machine", "features_to_ask", "refuse_target"]

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


def refuse_target(target: Target, there: Transport) -> None:
    """Refuse what is about to be compiled for another machine than the device is.

    Args:
        target: what it is to be compiled for.
        there: the way to the device.

    Raises:
        ModuleMismatch: it is not for any of the device's machines.
        DeviceMissing: the device cannot be used.
        DeviceError: it went away.
        MissingExtra: edgert has to be built for it, and `ziglang` is missing.
    """
    facts = there.facts()
    fitting = [machine for machine in facts.machines if machine.name == target.isa]
    if target.cpu is None or not fitting:
        own = facts.machines[0]
        raise ModuleMismatch(
            f"a program compiled for {target.name} does not run on {there.name}, which is "
            f"{own.name}",
            hint=_advice(own),
        )
    refuse_unbuildable(fitting[0])


def check_machine(module: Module, machine: Machine, name: str) -> None:
    """Refuse a module that holds no code for a machine, before anything is made for it or sent.

    Args:
        module: the module.
        machine: what it would run as.
        name: what messages call the device.

    Raises:
        ModuleMismatch: it is of another version, or holds code for something else.
    """
    check_loads(module)
    if module.formats and f"{_FORMAT}{machine.name}" not in module.formats:
        made = module.facts.target or ", ".join(module.formats)
        what = f"{module.path} was compiled for {made}, and {name} is {machine.name}"
        if not any(code.startswith(_FORMAT) for code in module.formats):
            what += "; edgert, which would run it there, runs code for CPUs"
        raise ModuleMismatch(what, hint=_advice(machine))


def check_fits(module: Module, machine: Machine, features: Mapping[str, bool], name: str) -> None:
    """Refuse a module for the right machine that asks for more than its CPU has.

    Args:
        module: the module.
        machine: what it would run as.
        features: whether the CPU has each; one that edgert does not know is not in it.
        name: what messages call the device.

    Raises:
        ModuleMismatch: the CPU lacks something; the hint names the target that fits.
    """
    missing = [need for need in module.facts.cpu_features if not features.get(need, True)]
    if missing:
        raise ModuleMismatch(
            f"{module.path} was compiled for a CPU with {', '.join(missing)}, "
            f"which that of {name} has not",
            hint=f"compile it with --target={suggest_target(machine, features)}",
        )


def _advice(machine: Machine) -> str:
    """What to compile for where nobody has asked the CPU yet what it has."""
    return (
        f"compile it with --target={suggest_target(machine, {})}, which all of these run, or one "
        "of its kind that asks for more (`edgec targets`)"
    )
