"""What one driver finds on this machine, told in JSON lines by a child process.

`python -m edgec.runtime.probe vulkan` prints an object a device. Drivers are foreign code: a bad
one crashes or hangs the child, never the program that asked.
"""

import ctypes
import json
import sys
from collections.abc import Callable, Iterator

__all__ = ["main"]

_MESA = "apt install mesa-vulkan-drivers (a software device), or your GPU's own driver"
_NO_LIBRARY = {
    "vulkan": ("the Vulkan loader libvulkan.so.1 is not installed", "apt install libvulkan1"),
    "cuda": (
        "NVIDIA's driver library libcuda.so.1 is not installed",
        "install the NVIDIA driver; nvidia-smi must then list the GPU",
    ),
    "hip": (
        "AMD's library libamdhip64.so is not installed",
        "install ROCm; rocminfo must then list the GPU",
    ),
}

Finding = dict[str, object]


def main(arguments: list[str]) -> int:
    """Print what the driver named by the only argument finds."""
    (driver,) = arguments
    for finding in _PROBES[driver]():
        print(json.dumps(finding), flush=True)
    return 0


def _absent(name: str, reason: str, hint: str) -> Finding:
    return {"name": name, "usable": False, "reason": reason, "hint": hint}


def _vulkan() -> Iterator[Finding]:
    from edgec.runtime.vulkan_probe import enumerate_devices, load_loader

    loader = load_loader()
    if loader is None:
        yield _absent("", *_NO_LIBRARY["vulkan"])
        return
    known = enumerate_devices(loader)
    if isinstance(known, int):
        yield _absent("", f"the Vulkan loader finds no driver (error {known})", _MESA)
        return
    if not known:
        yield _absent("", "Vulkan has a loader and no device", _MESA)
        return
    found = list(_devices("vulkan"))
    yield from found
    names = [str(finding["name"]) for finding in found]
    for device in known:
        if any(name.startswith(device.name) for name in names):
            continue
        version = f"Vulkan {device.version[0]}.{device.version[1]}"
        lacks = ", ".join(device.lacks)
        yield _absent(
            device.name,
            f"it has {version} and lacks {lacks}"
            if lacks
            else f"the runtime refuses it ({version})",
            "update the GPU's driver; it needs timelineSemaphore, scalarBlockLayout and "
            "synchronization2 (all in Vulkan 1.3)",
        )


def _cuda() -> Iterator[Finding]:
    library = _load("libcuda.so.1", "libcuda.so")
    if library is None:
        yield _absent("", *_NO_LIBRARY["cuda"])
        return
    code = int(library.cuInit(0))
    if code != 0:
        reason = "there is no NVIDIA GPU" if code == 100 else f"CUDA does not start (error {code})"
        yield _absent("", reason, "run nvidia-smi; it must list the GPU")
        return
    yield from _devices("cuda")


def _hip() -> Iterator[Finding]:
    if _load("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7") is None:
        yield _absent("", *_NO_LIBRARY["hip"])
        return
    yield from _devices("hip")


def _edgert() -> Iterator[Finding]:
    """edgert's own GPUs; none is no finding, since the drivers `vulkan` and `cuda` say why."""
    from edgec.runtime.edgert import EdgertDevice, device_names
    from edgec.runtime.errors import EdgecError

    for driver in ("vulkan", "cuda"):
        for index, name in enumerate(device_names(driver)):
            path = f"{driver}/{index}" if index else driver
            finding: Finding = {"index": index, "name": name, "path": path}
            try:
                EdgertDevice(driver, index=index).close()
            except EdgecError as error:
                yield finding | _absent(name, error.what, "update the GPU's driver")
            else:
                yield finding | {"usable": True, "reason": "", "hint": ""}


def _metal() -> Iterator[Finding]:
    yield from _devices("metal")


def _load(*names: str) -> ctypes.CDLL | None:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _devices(driver: str) -> Iterator[Finding]:
    """Every device of a driver, opened once to see whether it works."""
    from edgec.runtime.iree_drivers import create_driver
    from edgec.runtime.native import status_text

    hint = f"see the driver's own tools; the runtime's {driver} driver refuses"
    try:
        native = create_driver(driver)
        devices = native.query_available_devices()
    except (RuntimeError, ValueError) as error:
        yield _absent("", status_text(str(error))[1], hint)
        return
    if not devices:
        yield _absent("", f"the {driver} driver works and finds no device", hint)
    for index, device in enumerate(devices):
        finding: Finding = {"index": index, "name": device["name"], "path": device["path"]}
        try:
            native.create_device(device["device_id"])
        except (RuntimeError, ValueError) as error:
            yield finding | _absent(device["name"], status_text(str(error))[1], hint)
        else:
            yield finding | {"usable": True, "reason": "", "hint": ""}


_PROBES: dict[str, Callable[[], Iterator[Finding]]] = {
    "vulkan": _vulkan,
    "cuda": _cuda,
    "hip": _hip,
    "metal": _metal,
    "edgert": _edgert,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
