"""edgert's driver: finds or builds its library, and opens by it the CPU, or a GPU."""

from edgec.runtime.cache_folder import kernel_file
from edgec.runtime.driver import DeviceStatus, Opened
from edgec.runtime.errors import DeviceMissing, EdgecError, UsageError
from edgec.runtime.foreign_code import probe_in_child, refuse_clash

__all__ = ["EdgertDriver"]

_CPU = "edgert://cpu"
_GPUS = ("vulkan", "cuda")
_NAME = "this machine's CPU, on "
_RUNTIME = "edgert"
_UNWRITTEN = "unwritten"


class EdgertDriver:
    """Devices by edgert, the runtime in C that phones and boards have."""

    def probe(self) -> tuple[DeviceStatus, ...]:
        """The CPU, or why edgert's library is not here; and what Vulkan and CUDA find."""
        reason = hint = ""
        try:
            self.open(_CPU, "cpu", None)
        except EdgecError as error:
            reason, hint = error.what, error.hint or "use the device local-task"
        cpu = DeviceStatus(
            uri=_CPU,
            driver="edgert",
            name="" if reason else _named(None),
            usable=not reason,
            runtime="" if reason else _RUNTIME,
            reason=reason,
            hint=hint,
        )
        return (cpu,) if reason else (cpu, *self._probe_gpus())

    def _probe_gpus(self) -> tuple[DeviceStatus, ...]:
        found, _ = probe_in_child("edgert")
        return tuple(
            DeviceStatus(
                uri=f"edgert://{finding['path']}",
                driver="edgert",
                name=str(finding["name"]),
                usable=bool(finding["usable"]),
                runtime=_RUNTIME,
                reason=str(finding["reason"]),
                hint=str(finding["hint"]),
            )
            for finding in found
        )

    def open(self, uri: str, path: str, threads: int | None) -> Opened:
        """The device; on the CPU `threads` compute, the caller's own included.

        `edgert://cpu/unwritten` is the CPU with every bit set in memory that a program has not
        written yet: floats are no numbers there, so that whoever reads them shows it.
        """
        from edgec.runtime.edgert import EdgertDevice, device_names
        from edgec.runtime.edgert_backend import EdgertBackend

        kind, _, number = path.partition("/")
        if kind in ("", "cpu") and number in ("", _UNWRITTEN):
            cpu = EdgertDevice("cpu", threads=threads or 0, unwritten=0xFF if number else 0)
            backend = EdgertBackend(device=cpu, uri=uri)
            return Opened(
                backend=backend,
                name=_named(threads),
                runtime=_RUNTIME,
                identity=f"{cpu.identity:016x}",
            )
        if kind not in _GPUS or not (number or "0").isdecimal():
            known = ", ".join(f"edgert://{name}" for name in _GPUS)
            raise DeviceMissing(f"{uri} is not here", hint=f"use {_CPU}, {known}")
        if threads is not None:
            raise UsageError(f"the device {uri} has no threads to choose")
        index = int(number or "0")
        kept = None
        if kind == "vulkan":  # CUDA keeps kernels itself
            names = device_names("vulkan")
            for name in names[index : index + 1]:
                refuse_clash(name)
            kept = kernel_file(names[index]) if index < len(names) else None
        try:
            gpu = EdgertDevice(kind, index=index, cache_file=kept)
        except DeviceMissing as missing:
            raise DeviceMissing(
                f"{uri} is not here: {missing.what}", hint=missing.hint or "see `edgec devices`"
            ) from missing
        return Opened(
            backend=EdgertBackend(device=gpu, uri=uri),
            name=gpu.name,
            runtime=_RUNTIME,
            runs=kind,
            identity=f"{gpu.identity:016x}",
        )


def _named(threads: int | None) -> str:
    """What the CPU is called, with how much of it computes."""
    if threads is None:
        return f"{_NAME}all cores"
    return f"{_NAME}{threads} thread{'s' if threads > 1 else ''}"
