"""edgert's driver: finds or builds its library, and opens the CPU by it."""

from edgec.runtime.driver import DeviceStatus, Opened
from edgec.runtime.errors import DeviceMissing, EdgecError

__all__ = ["EdgertDriver"]

_URI = "edgert://cpu"
_NAME = "this machine's CPU, on all cores"
_RUNTIME = "edgert"


class EdgertDriver:
    """The CPU by edgert, the runtime in C that phones and boards have."""

    def probe(self) -> tuple[DeviceStatus, ...]:
        """The one device, or why its library is not here."""
        reason = hint = ""
        try:
            self.open(_URI, "cpu", None)
        except EdgecError as error:
            reason, hint = error.what, error.hint or "use the device local-task"
        return (
            DeviceStatus(
                uri=_URI,
                driver="edgert",
                name="" if reason else _NAME,
                usable=not reason,
                runtime="" if reason else _RUNTIME,
                reason=reason,
                hint=hint,
            ),
        )

    def open(self, uri: str, path: str, threads: int | None) -> Opened:
        """The device; `threads` compute, the caller's own included."""
        from edgec.runtime.edgert import EdgertDevice
        from edgec.runtime.edgert_backend import EdgertBackend

        if path not in ("", "cpu"):
            raise DeviceMissing(f"{uri} is not here: edgert has one device", hint=f"use {_URI}")
        device = EdgertDevice("cpu", threads=threads or 0)
        return Opened(backend=EdgertBackend(device=device, uri=uri), name=_NAME, runtime=_RUNTIME)
