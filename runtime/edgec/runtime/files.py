"""Files written whole or not at all: a temporary name beside the target, then one rename.

A symbolic link is followed; what is there and no regular file (a device, a pipe) is written to as
it is, and never replaced.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgec.runtime.errors import FileError

__all__ = [
    "FULL",
    "FULL_EXIT",
    "full_disk_said",
    "is_full",
    "no_space",
    "read_bytes",
    "write_atomically",
]

FULL = os.strerror(errno.ENOSPC)
"""What every program says of a disk that is full."""

FULL_EXIT = 73
"""The exit code of a child that cannot even write why it failed (EX_CANTCREAT of sysexits)."""


def no_space(place: Path | str | None) -> FileError:
    """The error for a disk that is full: that of a file, or of temporary ones."""
    where = f"for {place}" if place else f"in the temporary folder {tempfile.gettempdir()}"
    return FileError(
        f"no space is left {where}", hint="free some space, or point TMPDIR at another disk"
    )


@contextmanager
def full_disk_said() -> Iterator[None]:
    """A disk that fills up inside is a FileError that says so."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise no_space(error.filename) from error


def is_full(error: OSError) -> bool:
    """Whether this is about a disk, or somebody's share of it, that is full."""
    return error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        FileError: it is missing, a folder, or not readable.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A stream that becomes `path` when the block ends well, and leaves nothing when it does not.

    Raises:
        FileError: the folder is missing, not writable, or the disk is full.
    """
    temporary: Path | None = None
    try:
        if _takes_bytes_as_they_come(path):  # as named: what /dev/stdout leads to has no name
            with path.open("wb") as stream:
                yield stream
            return
        path = Path(os.path.realpath(path))
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise FileError(
            f"cannot write {path}: {error.strerror}",
            hint="free some space or choose another place with -o"
            if is_full(error)
            else "choose another place with -o",
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _takes_bytes_as_they_come(path: Path) -> bool:
    """Whether a device, a pipe or a socket is there."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
