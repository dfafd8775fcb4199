"""The place that an output goes to, made ready before the work whose result it is for."""

import tempfile
from pathlib import Path

from edgec.runtime.errors import FileError

__all__ = ["make_place"]


def make_place(file: Path) -> None:
    """Make the folder of a file that will be written, and those above it, unless they are there.

    Raises:
        FileError: that is not possible, or nothing can be written there.
    """
    folder = file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder {folder}: {error.strerror}", hint="choose another with -o"
        ) from error
    if file.is_dir():
        raise FileError(f"cannot write {file}: it is a folder", hint="name a file in it with -o")
    if file.exists():
        return
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise FileError(
            f"cannot write {file}: {error.strerror}", hint="choose another place with -o"
        ) from error
