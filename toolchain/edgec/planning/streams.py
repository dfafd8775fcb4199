"""Devices that are alike and a program for one of them to how many calls a second they let through.

Beside cuts of each call stand ways that leave a call on one device at a time: stages of the program
one behind the other, and whole programs side by side, several calls under way.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from edgec.packaging.folder import new_folder
from edgec.runtime.errors import EdgecError
from edgec.runtime.mesh.folder import MANIFEST
from edgec.runtime.split_folder import SPLIT, is_split
from edgec.splitting import Streamed, split_for_stream
from edgec.targets import Target
from edgec.toolchain import CompileOptions
from edgec.toolchain.program import Program

__all__ = ["marker_of", "measure_stream", "put_in_place"]


def measure_stream(
    whole: Callable[[], Program],
    target: Target,
    devices: Sequence[str],
    folder: Path,
    *,
    pieces: int,
    options: CompileOptions,
    tell: Callable[[str], object],
) -> tuple[Streamed | None, str]:
    """Time the ways that let several calls go through the devices, and keep the best in a folder.

    Args:
        whole: makes the program for one device.
        target: of every device.
        devices: their URIs.
        folder: where it goes.
        pieces: in how many the program is cut.
        options: how to compile.
        tell: is told what is done.

    Returns:
        What was measured, or why nothing was.
    """
    try:
        made = split_for_stream(
            whole(), devices, folder, pieces=pieces, target=target, options=options, tell=tell
        )
    except EdgecError as error:
        return None, error.what
    return made, ""


def marker_of(destination: Path) -> str:
    """The file by which a folder of a plan is known that is there already."""
    return SPLIT if is_split(destination) else MANIFEST


def put_in_place(folder: Path, destination: Path) -> None:
    """Let a folder that was made elsewhere be the plan's; an older plan's goes.

    Raises:
        FileError: the destination holds other things.
    """
    marker = marker_of(destination)
    with new_folder(destination, replace=True, marker=marker) as place:
        shutil.copytree(folder, place, dirs_exist_ok=True)
