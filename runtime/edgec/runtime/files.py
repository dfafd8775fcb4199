"""Files written whole or not at all: a temporary name beside the target, then one rename.

A symbolic link is followed; what is there and no regular file (a device, a pipe) is written to as
it is, and never replaced. Nor is a file that this process has open already and that is named by
its descriptor (`/dev/stdout`): bytes go behind those that are there.
"""

import errno
import os
import re
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
    "descriptor_of",
    "full_disk_said",
    "is_full",
    "no_space",
    "read_bytes",
    "refuse_full",
    "unreadable",
    "write_atomically",
]

FULL = os.strerror(errno.ENOSPC)
"""What every program says of a disk that is full."""

FULL_EXIT = 73
"""The exit code of a child that cannot even write why it failed (EX_CANTCREAT of sysexits)."""

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|(?P<process>\d+)))/fd/(?P<number>\d+)")
_MOST_LINKS = 40


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


def refuse_full(folder: Path, size: int) -> None:
    """Write so many bytes into a folder, and remove them: is there room for what will be made?

    Raises:
        FileError: there is none.
        OSError: nothing can be written there for another reason.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(size))
    except OSError as error:
        if not is_full(error):
            raise
        raise FileError(
            f"no space is left in {folder}",
            hint="free some space there, or set EDGEC_CACHE_DIR to a folder on another disk",
        ) from error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        FileError: it is missing, a folder, or not readable.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> FileError:
    """The error for a file that cannot be read, or that is a folder."""
    hint = "name a file in it" if path.is_dir() else None
    return FileError(f"cannot read {path}: {error.strerror}", hint=hint)


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A stream that becomes `path` when the block ends well, and leaves nothing when it does not.

    Raises:
        FileError: the folder is missing, not writable, or the disk is full.
    """
    temporary: Path | None = None
    try:
        number = descriptor_of(path)
        if number is not None:
            with os.fdopen(os.dup(number), "wb") as stream:
                yield stream
            return
        if _takes_bytes_as_they_come(path):
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


def descriptor_of(path: Path) -> int | None:
    """The number of the open file that this path, or a link, names: 1 for `/dev/stdout`.

    None for all other paths. What such a name leads to has none of its own, or is a file that
    somebody has begun to write.
    """
    for _ in range(_MOST_LINKS):
        text = str(path.absolute())
        found = _DESCRIPTOR.fullmatch(text)
        if found is not None:
            own = found["process"] in (None, str(os.getpid()))
            return int(found["number"]) if own else None
        if text in _STANDARD:
            return _STANDARD[text]
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _takes_bytes_as_they_come(path: Path) -> bool:
    """Whether a device, a pipe or a socket is there."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
