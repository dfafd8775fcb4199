"""The folder that an output goes into, made before the work whose result it is for."""

from pathlib import Path

from edgec.runtime.errors import FileError

__all__ = ["make_folder"]


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they are there.

    Raises:
        FileError: that is not possible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder {folder}: {error.strerror}", hint="choose another with -o"
        ) from error
