"""argv to an exit code: runs a verb, prints its report or its error, and is the only one to exit.

Exit codes are those of `edgec.runtime.errors`, and: 70 a bug in edgec, 129, 130 and 143 ended by a
signal, 141 whoever read the output went away.
"""

import contextlib
import io
import json
import math
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from edgec.cli.ending import EXITS, Ended, end_by_exception
from edgec.cli.layout import printable, wants_colour, write_blocks
from edgec.cli.report import SCHEMA, Report
from edgec.cli.session import Session, told
from edgec.runtime.errors import EdgecError, FileError, UsageError
from edgec.runtime.files import full_disk_said

__all__ = ["EXIT_BROKEN_PIPE", "EXIT_BUG", "EXIT_INTERRUPTED", "execute", "main"]

EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class _Bug(EdgecError):
    """Something raised that edgec did not foresee."""

    exit_code = EXIT_BUG

    @property
    def code(self) -> str:
        return "InternalError"


class _Interrupted(EdgecError):
    """Ctrl-C."""

    exit_code = EXIT_INTERRUPTED

    @property
    def code(self) -> str:
        return "Interrupted"


class _Signalled(EdgecError):
    """SIGTERM or SIGHUP."""

    def __init__(self, name: str) -> None:
        super().__init__(f"ended by {name}")
        self.exit_code = EXITS[name]

    @property
    def code(self) -> str:
        return "Interrupted"


def main() -> NoReturn:
    """The `edgec` command."""
    end_by_exception()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(execute(sys.argv[1:]))


def execute(argv: Sequence[str]) -> int:
    """Run one command line, print what comes of it, and return its exit code."""
    flags = argv[: argv.index("--")] if "--" in argv else argv
    session = Session(json="--json" in flags)
    try:
        return _print(_run(argv, session), session)
    except Ended as signal:  # while the report was printed
        return EXITS[signal.name]
    except BrokenPipeError:
        _forget_output()
        return EXIT_BROKEN_PIPE
    except OSError as error:  # stdout is closed, or a file on a full disk
        _forget_output()
        failure = FileError(f"cannot write the output: {error.strerror}")
        _print_error(failure)
        return failure.exit_code


def _run(argv: Sequence[str], session: Session) -> Report:
    """Run the verb; whatever it raises becomes the report's error."""
    import typer

    from edgec.cli.app import command

    try:
        with told(session, "edgec.runtime", "edgec.exporters"), full_disk_said():
            outcome = command().main(
                args=list(argv), prog_name="edgec", standalone_mode=False, obj=session
            )
    except typer.TyperException as error:
        return _failed(_usage_error(error))
    except EdgecError as error:
        return _failed(error)
    except (KeyboardInterrupt, typer.Abort):
        return _failed(_Interrupted("interrupted"))
    except Ended as signal:
        return _failed(_Signalled(signal.name))
    except MemoryError:
        return _failed(EdgecError("out of memory", hint="close something, or use a larger machine"))
    except SystemExit as stop:  # how typer ends a shell completion
        return Report(data={}, exit_code=stop.code if isinstance(stop.code, int) else 0)
    except Exception as error:  # noqa: BLE001 - a bug must not end in a traceback
        return _failed(_bug(error, argv, session))
    if isinstance(outcome, Report):
        return outcome
    if outcome == EXIT_INTERRUPTED:
        return _failed(_Interrupted("interrupted"))
    return Report(data={}, exit_code=outcome or 0)


def _failed(error: EdgecError) -> Report:
    return Report(data={}, error=error, exit_code=error.exit_code)


def _usage_error(error: Any) -> EdgecError:
    """Turn the parser's complaint into edgec's own."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "edgec"
    message = error.format_message().strip().replace("\n", " ")
    return UsageError(message.removesuffix("."), hint=f"see `{path} --help`")


def _bug(error: Exception, argv: Sequence[str], session: Session) -> EdgecError:
    """Write what happened to a log file, and say so in a paragraph."""
    text = f"edgec {' '.join(argv)}\n\n{''.join(traceback.format_exception(error))}"
    if session.verbosity >= 1:
        print(text, file=sys.stderr)
    log = None
    try:
        handle, log = tempfile.mkstemp(prefix="edgec-bug-", suffix=".log")
        # A command line may hold bytes that are no text.
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError:
        print(text, file=sys.stderr)
    kind = type(error).__name__
    message = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return _Bug(
        f"edgec itself failed: {kind}: {message}" if message else f"edgec itself failed: {kind}",
        hint="this is a bug in edgec; report it with the log and the output of `edgec doctor`",
        log=log,
    )


def _print(report: Report, session: Session) -> int:
    """Print a report where it belongs; the exit code."""
    error = report.error
    if session.json and (session.verb or error is not None):
        _print_json(report, session)
    elif report.file is not None:
        _print_file(report.file)
        if session.verbosity >= 0:
            write_blocks(report.blocks, sys.stderr)
    elif report.blocks:
        write_blocks(report.blocks, sys.stdout)
    sys.stdout.flush()
    if error is not None:
        if not session.json:
            _print_error(error)
        return error.exit_code
    return report.exit_code


def _print_file(path: Path) -> None:
    """The bytes of a file, behind what stdout has already."""
    sys.stdout.flush()
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)


def _print_json(report: Report, session: Session) -> None:
    value: dict[str, Any] = {"schema": SCHEMA}
    if session.verb:
        value["verb"] = session.verb
    value |= report.data
    if session.notes:
        value["notes"] = session.notes
    if report.error is not None:
        value["error"] = _error_json(report.error)
    json.dump(_finite(value), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def _error_json(error: EdgecError) -> dict[str, Any]:
    return {
        "code": error.code,
        "what": error.what,
        "where": error.where,
        "hint": error.hint,
        "log": error.log,
        "exit_code": error.exit_code,
    }


def _print_error(error: EdgecError) -> None:
    """The error for people, on stderr; with `--json` it is in the object instead."""
    stream: TextIO = sys.stderr
    text = printable(str(error))
    label = "\x1b[1;31merror:\x1b[0m" if wants_colour(stream) else "error:"
    print(f"{label} {text}", file=stream, flush=True)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinities: they become the strings nan, inf and -inf."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(child) for child in value]
    if isinstance(value, Path):
        return str(value)
    return value


def _forget_output() -> None:
    """Nobody reads stdout any more: let the interpreter flush into nothing on its way out."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
