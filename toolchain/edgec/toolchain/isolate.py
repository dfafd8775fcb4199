"""Work on untrusted files in a child process: what kills the child becomes one error here.

The parent writes a request as JSON, has `edgec.toolchain.isolated REQUEST REPLY` run in a child,
forked (`fork_server`) or started anew, and reads the reply: a result, or an error of the tree.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edgec.runtime import errors
from edgec.runtime.errors import EdgecError, ProgramError
from edgec.runtime.files import FULL_EXIT, no_space
from edgec.toolchain import fork_server, forking
from edgec.toolchain.inside import answers_here

__all__ = ["call"]

_TRACEBACK = "Traceback (most recent call last):"
"""How Python begins to say that an exception was not caught."""


def call(
    task: str,
    arguments: Mapping[str, Any],
    *,
    subject: str,
    timeout: float,
    died: Callable[[str], EdgecError] | None = None,
) -> Any:
    """Run a task in a child and give back its JSON result.

    Args:
        task: one of those in `edgec.toolchain.isolated`.
        arguments: JSON for the task.
        subject: what it works on, for messages.
        timeout: seconds after which the child is killed.
        died: makes the error for a child that crashed or hung, from one sentence on how.

    Raises:
        FileError: there is no space for its files.
        EdgecError: what the task raised, or what `died` makes (a ProgramError without it).
    """
    answer_here = answers_here()
    if answer_here is not None:
        return answer_here(task, arguments)
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        request, reply = Path(folder, "request.json"), Path(folder, "reply.json")
        request.write_text(json.dumps({"task": task, "arguments": dict(arguments)}))
        how, text = _run(request, reply, Path(folder, "stderr.txt"), timeout)
        if how is None and reply.exists():
            answer = json.loads(reply.read_text())
            if "error" in answer:
                raise _error(answer["error"])
            return answer["result"]
    how = how or "ended without an answer"
    tail = text.strip().splitlines()[-1:] or [""]
    if died is not None:
        raise died(f"{how}{f' ({tail[0]})' if tail[0] else ''}")
    if _TRACEBACK in text:  # nothing died of the file, edgec has a fault
        raise ProgramError(
            f"edgec itself failed on {subject}: {tail[0]}",
            hint="`edgec compile --print-passes` shows how far it came; please report this",
        )
    raise ProgramError(
        f"reading {subject} {how}: the file is damaged, or too large for this machine",
        hint="export the model again",
    )


def _run(request: Path, reply: Path, stderr: Path, timeout: float) -> tuple[str | None, str]:
    """How the child ended badly, if it did, and what it printed to stderr."""
    stderr.touch()
    how = None
    try:
        code = _fork(request, reply, stderr, timeout)
        if code is None:
            code = _start(request, reply, stderr, timeout)
        if code == FULL_EXIT:
            raise no_space(None)
        if code < 0:
            how = f"died of {_signal_name(-code)}"
        elif code:
            how = f"failed with exit code {code}"
    except subprocess.TimeoutExpired:
        how = f"took longer than {timeout:.0f} seconds"
    return how, stderr.read_bytes()[-20000:].decode(errors="replace")


def _fork(request: Path, reply: Path, stderr: Path, timeout: float) -> int | None:
    """Run the child as a fork of this process or of a server; None where there is neither."""
    answer = forking.answers_forked()
    if answer is None:
        return fork_server.run(request, reply, stderr=stderr, timeout=timeout)
    return forking.run(partial(answer, request, reply), stderr=stderr, timeout=timeout)


def _start(request: Path, reply: Path, stderr: Path, timeout: float) -> int:
    """Run the child as a process that shares nothing, and give its exit code."""
    with stderr.open("ab") as file:
        return subprocess.run(
            [sys.executable, "-m", "edgec.toolchain.isolated", str(request), str(reply)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            timeout=timeout,
            check=False,
        ).returncode


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _error(value: Mapping[str, Any]) -> EdgecError:
    kind = getattr(errors, str(value["code"]), EdgecError)
    error: EdgecError = kind(
        value["what"], where=value["where"], hint=value["hint"], log=value["log"]
    )
    return error
