"""A command line on this machine to what it gave; one that is missing or hangs is an error."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgec.ondevice.transport import Answer
from edgec.runtime.errors import DeviceError, DeviceMissing

__all__ = ["find_program", "run_here"]


def find_program(name: str, *, hint: str) -> str:
    """Where a program is.

    Raises:
        DeviceMissing: it is not on the PATH; `hint` says how it comes there.
    """
    found = shutil.which(name)
    if found is None:
        raise DeviceMissing(f"there is no {name} on the PATH", hint=hint)
    return found


def run_here(
    words: Sequence[str],
    *,
    given: Path | str = "",
    into: Path | None = None,
    folder: str | None = None,
    seconds: float | None = None,
) -> Answer:
    """Run a command and wait for its end.

    Args:
        words: the program and its arguments.
        given: what it reads: a text, or a file.
        into: a file for what it writes, instead of the answer.
        folder: where it runs.
        seconds: how long it may take; for ever without.

    Raises:
        DeviceError: it took longer, or cannot be started.
    """
    source = given.open("rb") if isinstance(given, Path) else None
    sink = into.open("wb") if into is not None else None
    try:
        done = subprocess.run(
            list(words),
            stdin=source,
            input=None if source else str(given).encode(),
            stdout=sink if sink else subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"{Path(words[0]).name} did not answer within {seconds:.0f} s",
            hint="see that the device is on and connected",
        ) from error
    except OSError as error:
        raise DeviceError(f"cannot start {words[0]}: {error.strerror or error}") from error
    finally:
        for stream in (source, sink):
            if stream is not None:
                stream.close()
    return Answer(code=done.returncode, out=_text(done.stdout), err=_text(done.stderr))


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace").replace("\r\n", "\n")
