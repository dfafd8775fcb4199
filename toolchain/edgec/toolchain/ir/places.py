"""Where in the user's own source an operation comes from."""

import re
from typing import Any

__all__ = ["source_line"]


def source_line(op: Any) -> str | None:
    """`file:line` of an operation: the innermost that is not inside a framework."""
    places = re.findall(r'"([^"]+)":(\d+):\d+', str(op.location))
    own = [p for p in places if not re.search(r"[/\\](site|dist)-packages[/\\]", p[0])]
    return next((f"{file}:{line}" for file, line in own or places), None)
