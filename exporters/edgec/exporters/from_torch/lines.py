"""A printed Python stack, as torch keeps one with each node, to the user's own line in it."""

import re

from edgec.exporters.places import innermost

__all__ = ["user_line"]

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def user_line(stack: str | None) -> str | None:
    """The innermost line that lies in the user's code: `model.py:12 (f)`; else a library's."""
    frames = [(file, int(line), name) for file, line, name in _FRAME.findall(stack or "")]
    frames.reverse()
    return innermost(frames)
