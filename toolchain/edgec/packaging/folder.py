"""A folder that appears whole or not at all: written under another name, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgec.runtime.errors import FileError
from edgec.runtime.manifest import MANIFEST

__all__ = ["new_folder", "refuse_occupied"]


@contextmanager
def new_folder(
    destination: Path, *, replace: bool = False, marker: str = MANIFEST
) -> Iterator[Path]:
    """A folder that becomes `destination` when the block ends well, and goes when it does not.

    Args:
        destination: a folder that does not exist, or is empty.
        replace: take the place of a package that is there; of anything else, never.
        marker: the file by which a package is known.

    Raises:
        FileError: the destination is in use, or nothing can be written there.
    """
    refuse_occupied(destination, replace=replace, marker=marker)
    scratch: Path | None = None
    try:
        place = destination.absolute()
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        yield scratch
        umask = os.umask(0)
        os.umask(umask)
        scratch.chmod(0o777 & ~umask)
        old = Path(tempfile.mkdtemp(prefix=f".{place.name}.old.", dir=place.parent))
        try:
            if place.exists():
                place.rename(old)
            scratch.rename(place)
            scratch = None
        except OSError:
            if old.exists() and not place.exists() and any(old.iterdir()):
                old.rename(place)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise FileError(
            f"cannot write the package {destination}: {error.strerror}",
            hint="free some space or choose another place with -o",
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def refuse_occupied(destination: Path, *, replace: bool, marker: str = MANIFEST) -> None:
    """Refuse a folder that a package may not take the place of.

    Raises:
        FileError: it holds other things, or a package that is not to be replaced.
    """
    try:
        if not destination.exists():
            return
        if not destination.is_dir():
            raise FileError(f"{destination} is a file", hint="name a folder with -o")
        if not any(destination.iterdir()):
            return
        is_package = (destination / marker).is_file()
    except OSError as error:
        raise FileError(f"cannot look into {destination}: {error.strerror}") from error
    if not is_package:
        raise FileError(
            f"the folder {destination} holds other things than a package",
            hint="name a new folder with -o",
        )
    if not replace:
        raise FileError(
            f"there is a package in {destination} already",
            hint="--force puts the new one in its place",
        )
