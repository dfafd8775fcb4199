"""A child process that may die: it answers each line, and is started again."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["Worker"]

_ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 150.0


class Worker:
    """A child that answers each line with a line of JSON, and is started again when it dies."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, *arguments]
        self._child: subprocess.Popen[bytes] | None = None

    def ask(self, line: str) -> dict[str, Any]:
        """The answer to a line; a crash or a hang is an answer as well."""
        if self._child is None:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=_ROOT,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
        stdin, stdout = self._child.stdin, self._child.stdout
        if stdin is None or stdout is None:
            raise OSError("the worker has no pipes")
        try:
            stdin.write(f"{line}\n".encode())
            stdin.flush()
            ready, _, _ = select.select([stdout], [], [], _LIMIT)
            answer = stdout.readline() if ready else b""
        except BrokenPipeError:
            ready, answer = [stdout], b""
        if answer:
            found: dict[str, Any] = json.loads(answer)
            return found
        self.close()
        if not ready:
            return {"ok": False, "outcome": "timeout", "reason": f"over {_LIMIT:.0f} s"}
        return {"ok": False, "outcome": "crash", "reason": "the process died"}

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
