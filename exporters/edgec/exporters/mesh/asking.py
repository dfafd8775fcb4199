"""The child process that Shardy works in: asked many times, and begun anew where it dies."""

import json
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.runtime.closing import Closing
from edgec.runtime.errors import ExportError

__all__ = ["Shardy", "uneven"]

_TIMEOUT = 600.0  # seconds, of one program


class Shardy(Closing):
    """One program at a time; not for several threads."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115

    def ask(self, request: Mapping[str, Any], folder: Path, name: str) -> Any:
        """What `edgec.exporters.mesh.shardy.partition` says to a request.

        Args:
            request: as it takes them.
            folder: for what is written.
            name: the function's, for errors.

        Raises:
            ExportError: it took too long, or the process died.
        """
        asked, reply = folder / "request.json", folder / "reply.json"
        asked.write_text(json.dumps(dict(request)))
        reply.unlink(missing_ok=True)
        child = self._running()
        where = self._said.seek(0, 2)
        if child.stdin is None or child.stdout is None:
            raise ExportError("Shardy's process has no pipes")
        try:
            child.stdin.write(f"{json.dumps([str(asked), str(reply)])}\n".encode())
            child.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(child.stdout, selectors.EVENT_READ)
                answered = bool(selector.select(_TIMEOUT))
        except BrokenPipeError:
            answered = True
        if not answered:
            self._end()
            raise ExportError(
                f"Shardy took longer than {_TIMEOUT:.0f} seconds for {name}",
                hint="constrain more of its values with jax.lax.with_sharding_constraint",
            )
        if not child.stdout.readline():
            self._end()
            self._said.seek(where)
            axes = ",".join(f"{axis}={size}" for axis, size in request["axes"])
            raise _ended(self._said.read(), name, axes, child.returncode)
        return json.loads(reply.read_text())

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "edgec.exporters.mesh.shardy"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
            )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        with child:
            pass

    def close(self) -> None:
        """End the process."""
        self._end()
        self._said.close()


def uneven(name: str, axes: str) -> ExportError:
    """The mesh (`x=2,y=4`) does not divide an array of this function."""
    return ExportError(
        f"an axis of an array in {name} cannot be cut into equal parts by the mesh {axes}",
        hint="choose sizes that the mesh divides, or leave that axis whole",
    )


def _ended(said: bytes, name: str, axes: str, code: int) -> ExportError:
    if b"non-divisible" in said:
        return uneven(name, axes)
    last = said.decode(errors="replace").strip().splitlines()[-1:] or [""]
    return ExportError(
        f"Shardy's partitioner ended at {name} ({last[0] or code})",
        hint="constrain more of its values with jax.lax.with_sharding_constraint",
    )
