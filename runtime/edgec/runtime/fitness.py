"""Whether a module can run on a device: driver, code format, CPU features, versions.

Asked before native code sees the module. A module for another CPU would otherwise die of SIGILL,
one for another driver or version fail deep inside with a message about byte code.
"""

from edgec.runtime.cpu import architecture, host_features, missing_features
from edgec.runtime.device import Device
from edgec.runtime.errors import ModuleError, ModuleMismatch
from edgec.runtime.module import Module

__all__ = ["check_fits", "check_loads", "default_device", "driver_uri"]

_BYTECODE_VERSION = 17
_LOCAL = ("local-task", "local-sync", "edgert")
# Each driver to the beginnings of the executable formats that it runs.
_FORMATS = {
    "local-task": ("embedded-elf-", "vmvx-", "system-elf-"),
    "local-sync": ("embedded-elf-", "vmvx-", "system-elf-"),
    "vulkan": ("vulkan-",),
    "cuda": ("cuda-",),
    "hip": ("rocm-",),
    "metal": ("metal-",),
    "edgert": ("embedded-elf-",),
}
_HAL_VERSION = 7
_LIBRARIES = ("hal", "io_parameters")


def default_device(module: Module) -> str:
    """The URI of the device that a module was compiled for: `cpu`, `gpu` for Vulkan, or a driver's.

    Raises:
        ModuleError: the module does not say.
    """
    if module.facts.driver:
        return driver_uri(module.facts.driver)
    if not module.formats:
        return "cpu"
    raise ModuleError(
        f"{module.path} does not say what device it is for", hint="name one with device="
    )


def driver_uri(driver: str) -> str:
    """The URI of the device for modules that name a driver, as targets and modules do.

    Modules for CPUs and for Vulkan name IREE's driver, and run on `cpu` and `gpu`: on edgert where
    it takes them, as those for CUDA on `cuda`.
    """
    if driver in _LOCAL:
        return "cpu"
    return "gpu" if driver == "vulkan" else driver


def check_fits(module: Module, device: Device) -> None:
    """Refuse a module that this device or runtime cannot run.

    Raises:
        ModuleMismatch: it was made for another version, device, CPU or library.
    """
    check_loads(module)
    _check_formats(module, device)
    if device.runs in _LOCAL:
        _check_cpu(module)


def check_loads(module: Module) -> None:
    """Refuse a module that no runtime of edgec's can load, on whatever machine.

    Raises:
        ModuleMismatch: it was made for another version, or needs functions that edgec has not.
    """
    _check_version(module)
    _check_imports(module)


def _check_version(module: Module) -> None:
    major, minor = module.bytecode_version
    if major == _BYTECODE_VERSION:
        return
    made = f" (by iree-base-compiler {module.facts.compiler})" if module.facts.compiler else ""
    raise ModuleMismatch(
        f"{module.path} was compiled for byte code {major}.{minor}{made}; "
        f"this runtime runs {_BYTECODE_VERSION}",
        hint="compile the program again with this version of edgec",
    )


def _check_imports(module: Module) -> None:
    needs = {f.name.partition(".")[0] for f in module.imports if not f.optional}
    foreign = sorted(needs - set(_LIBRARIES))
    if foreign:
        raise ModuleMismatch(
            f"{module.path} needs the runtime module {', '.join(foreign)}, which edgec has not",
            hint="compile it without custom modules",
        )


def _check_formats(module: Module, device: Device) -> None:
    formats = _FORMATS.get(device.runs, ())
    code = [name for name in module.formats if not name.startswith(formats)]
    if not module.formats or len(code) < len(module.formats):
        return
    made = module.facts.target or module.facts.driver or "another device"
    raise ModuleMismatch(
        f"{module.path} was compiled for {made} ({', '.join(module.formats)}) "
        f"and cannot run on {device.uri}",
        hint=f"use the device {driver_uri(module.facts.driver)}, or compile it for this one",
    )


def _check_cpu(module: Module) -> None:
    machine = architecture()
    elf = [f for f in module.formats if f.startswith(("embedded-elf-", "system-elf-"))]
    if elf and all(not name.endswith(f"-{machine}") for name in elf):
        raise ModuleMismatch(
            f"{module.path} holds code for {', '.join(n.rsplit('-', 1)[1] for n in elf)} "
            f"and this machine is {machine}",
            hint="compile it with --target=cpu on this machine",
        )
    if not elf:
        return
    needed = (*module.facts.cpu_features, *module.code_features)
    missing = missing_features(needed, host_features())
    if missing:
        raise ModuleMismatch(
            f"{module.path} was compiled for a CPU with {', '.join(missing)}, "
            "which this one has not",
            hint="compile it with --target=cpu on this machine",
        )
