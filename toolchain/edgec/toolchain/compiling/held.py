"""The memory that a module takes during a call beside arguments, weights and results."""

import json
from pathlib import Path

__all__ = ["held_bytes", "held_flags"]


def held_flags(statistics: Path) -> tuple[str, ...]:
    """The compiler's flags to write what `held_bytes` reads."""
    return (
        "--iree-scheduling-dump-statistics-format=json",
        f"--iree-scheduling-dump-statistics-file={statistics}",
    )


def held_bytes(statistics: Path) -> int:
    """Bytes of everything that the parts of a program need for a while.

    A program without control flow is one part, whose buffer a kernel is given whole.
    """
    found = json.loads(statistics.read_text(encoding="utf-8"))
    return int(found["stream-aggregate"]["execution"]["transient-memory-size"])
