"""Work on untrusted files in a child process: what kills the child becomes one error here.

The parent writes a request as JSON, runs `python -m edgec.toolchain.isolate REQUEST REPLY`, and
reads the reply: a result, or an error of the tree.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgec.runtime import errors
from edgec.runtime.errors import EdgecError, ProgramError

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
        task: one of `_HANDLERS`.
        arguments: JSON for the task.
        subject: what it works on, for messages.
        timeout: seconds after which the child is killed.
        died: makes the error for a child that crashed or hung, from one sentence on how.

    Raises:
        EdgecError: what the task raised, or what `died` makes (a ProgramError without it).
    """
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        request, reply = Path(folder, "request.json"), Path(folder, "reply.json")
        request.write_text(json.dumps({"task": task, "arguments": dict(arguments)}))
        command = [sys.executable, "-m", "edgec.toolchain.isolate", str(request), str(reply)]
        how, text = _run(command, timeout)
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


def _run(command: list[str], timeout: float) -> tuple[str | None, str]:
    """How the child ended badly, if it did, and what it printed to stderr."""
    with tempfile.TemporaryFile() as stderr:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        how = None
        try:
            code = child.wait(timeout)
            if code < 0:
                how = f"died of {_signal_name(-code)}"
            elif code:
                how = f"failed with exit code {code}"
        except subprocess.TimeoutExpired:
            how = f"took longer than {timeout:.0f} seconds"
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        stderr.seek(0)
        return how, stderr.read()[-20000:].decode(errors="replace")


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


def _describe(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.prepare import describe_file

    return describe_file(Path(arguments["source"])).to_json()


def _prepare(arguments: Mapping[str, Any]) -> Any:
    from edgec.targets import Target
    from edgec.toolchain.kernels.cpu.source import Cut
    from edgec.toolchain.precision import F32
    from edgec.toolchain.prepare import prepare_file
    from edgec.toolchain.program import ProgramInfo

    prepared = prepare_file(
        Path(arguments["source"]),
        Path(arguments["output"]),
        ProgramInfo.from_json(arguments["info"]),
        arguments["facts"],
        Target.from_json(arguments["target"]),
        level=int(arguments["level"]),
        narrow=bool(arguments["narrow"]),
        disabled=tuple(arguments["disabled"]),
        cuts={key: Cut.from_json(value) for key, value in arguments["cuts"].items()},
        validate=bool(arguments["validate"]),
        f32=F32(arguments["f32"]),
    )
    return {
        "seconds": dict(prepared.seconds),
        "changes": dict(prepared.changes),
        "least_precise": prepared.least_precise,
        "validated": dict(prepared.validated),
        "unvalidated": list(prepared.unvalidated),
        "kernels": None if prepared.kernels is None else prepared.kernels.to_json(),
    }


def _check(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.check import run_check

    return run_check(arguments)


def _device(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tuning.measure import run_device

    return run_device(arguments)


def _answers(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tuning.measure import run_answers

    run_answers(arguments)


def _compare(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tuning.measure import run_compare

    return run_compare(arguments)


_HANDLERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "describe": _describe,
    "prepare": _prepare,
    "check": _check,
    "device": _device,
    "answers": _answers,
    "compare": _compare,
}


def main(request: Path, reply: Path) -> None:
    """The child: answer one request."""
    value = json.loads(request.read_text())
    answer: dict[str, Any]
    try:
        answer = {"result": _HANDLERS[value["task"]](value["arguments"])}
    except EdgecError as error:
        answer = {
            "error": {
                "code": error.code,
                "what": error.what,
                "where": error.where,
                "hint": error.hint,
                "log": error.log,
            }
        }
    reply.write_text(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
