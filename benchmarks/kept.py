"""The folder in which a benchmark keeps what it has compiled: one that is named, or none."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["in_folder"]


def in_folder(main: Callable[[Path], None]) -> None:
    """Call `main` with the folder of the command line, made if it is not there.

    Without one it is a folder that is gone afterwards.
    """
    if sys.argv[1:]:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        main(folder)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
