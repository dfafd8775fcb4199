"""The clang of the wheel `ziglang`, which builds edgert for other machines and for pages."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["build", "has_ziglang"]


def has_ziglang() -> bool:
    """Whether it is installed here."""
    try:
        return importlib.util.find_spec("ziglang") is not None
    except ValueError:  # it is barred from this process
        return False


def build(
    words: Sequence[str], made: Path, *, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Compile and link with the C library's mathematics; what clang said of it.

    It runs where the file is made: in a folder above its own files zig would build another C
    library, in a minute.

    Args:
        words: flags and sources, by paths that are absolute.
        made: the file.
        timeout: seconds.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    command = [sys.executable, "-m", "ziglang", "cc", *words, "-lm", "-o", str(made.absolute())]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, cwd=made.parent
    )
