"""A process that answers in lines of JSON for as long as it is asked."""

import json
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Child", "Failed"]

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A child that refused, died or took too long; the text says why."""


class Child:
    """A process that answers in lines of JSON; what it prints besides is kept for when it dies."""

    def __init__(self, module: str, *words: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, message: dict[str, Any]) -> None:
        stream = self._process.stdin
        try:
            if stream is not None:
                stream.write(json.dumps(message) + "\n")
                stream.flush()
        except OSError as error:
            raise Failed(self._last_words()) from error

    def answer(self, limit: float) -> dict[str, Any]:
        """The next message.

        Raises:
            Failed: it refuses, is dead, or says nothing for so many seconds.
        """
        stream = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
            if not selector.select(limit):
                raise Failed(f"no answer within {limit:.0f} s")
        line = stream.readline() if stream is not None else ""
        if not line:
            raise Failed(self._last_words())
        message: dict[str, Any] = json.loads(line)
        if "refused" in message:
            raise Failed(message["refused"])
        return message

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"ended with {code}: {lines[-1] if lines else 'no message'}"[:300]

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
