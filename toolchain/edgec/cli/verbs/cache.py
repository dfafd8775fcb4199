"""`edgec cache`: where finished modules are kept, how much there is, and emptying it."""

import contextlib
import shutil
from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime.errors import FileError

__all__ = ["cache"]


def cache(
    session: Session,
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything in it.")] = False,
) -> Report:
    """Say where finished modules are kept and how large they are, or remove them."""
    from edgec.cli.amounts import bytes_text
    from edgec.toolchain import Cache

    store = Cache.default()
    objects = store.folder / "objects"
    count, size = _measure(objects)
    if clear:
        _remove(objects)
    done = f"removed {count} entries, {bytes_text(size)}, from {store.folder}"
    there = (
        f"{store.folder}: {count} entries, {bytes_text(size)} of at most {bytes_text(store.limit)}"
    )
    return Report(
        data={
            "folder": store.folder,
            "entries": 0 if clear else count,
            "bytes": 0 if clear else size,
            "limit": store.limit,
            "removed": {"entries": count, "bytes": size} if clear else None,
        },
        blocks=(done if clear else there,),
    )


def _measure(folder: Path) -> tuple[int, int]:
    """Entries and bytes; files that vanish meanwhile count nothing."""
    count = size = 0
    for path in folder.glob("*/*"):
        with contextlib.suppress(OSError):
            size += path.stat().st_size
            count += path.suffix == ".json"
    return count, size


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(
            f"cannot empty {folder}: {error.strerror}", hint="remove it by hand"
        ) from error
