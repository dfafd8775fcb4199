"""Where in the user's own source something happened: `model.py:12 (forward)`."""

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from traceback import walk_tb

__all__ = ["describe", "first_users", "innermost", "is_edgecs", "is_users", "place_of_error"]

_HERE = tuple(str(Path(folder).resolve()) for folder in sys.modules["edgec"].__path__)
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")}
)
_INSTALLED = {"site-packages", "dist-packages"}
"""Folders of packages, of which Python may read several (a user's own, the system's)."""


def is_edgecs(file: str) -> bool:
    """Whether a source file is edgec's own."""
    return str(Path(file).resolve()).startswith(_HERE)


def is_users(file: str) -> bool:
    """Whether a source file is the user's: not Python's, not a package's, not edgec's."""
    if file.startswith("<"):
        return file.startswith("<ipython") or file == "<stdin>"
    path = Path(file).resolve()
    return not (str(path).startswith((*_HERE, *_LIBRARIES)) or _INSTALLED & {*path.parts})


def describe(file: str, line: int, function: str) -> str:
    """`model.py:12 (forward)`, with the file relative to the working folder where it is in it."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line} ({function})" if function else f"{path}:{line}"


def first_users(frames: Iterable[tuple[str, int, str]]) -> str | None:
    """The first place in user code among (file, line, function) frames, innermost first."""
    for file, line, function in frames:
        if is_users(file):
            return describe(file, line, function)
    return None


def innermost(frames: Iterable[tuple[str, int, str]]) -> str | None:
    """As `first_users`; where there is none, the innermost place that is not edgec's own."""
    known = [frame for frame in frames if not frame[0].startswith(_HERE)]
    return first_users(known) or (describe(*known[0]) if known else None)


def place_of_error(error: BaseException) -> str | None:
    """The innermost line of the user's code on the way to where an exception was raised."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return describe(error.filename, error.lineno, "")
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
    ]
    return first_users(reversed(frames))
