"""A printed Python stack, as torch keeps one with each node, to the user's own line in it."""

import re

from edgec.exporters.places import describe, first_users

__all__ = ["own_line", "user_line"]

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def user_line(stack: str | None) -> str | None:
    """The innermost line that lies in the user's code: `model.py:12 (f)`; else the innermost."""
    frames = _frames(stack)
    return first_users(frames) or (describe(*frames[0]) if frames else None)


def own_line(stack: str | None) -> str | None:
    """The innermost line that lies in the user's code; None where all lie in libraries."""
    return first_users(_frames(stack))


def _frames(stack: str | None) -> list[tuple[str, int, str]]:
    frames = [(file, int(line), name) for file, line, name in _FRAME.findall(stack or "")]
    return frames[::-1]
