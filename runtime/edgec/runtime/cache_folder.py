"""Where the runtime keeps what it made for the next time: libraries, and kernels of GPUs.

The folder is the one that the compiler uses, too; this module finds it without other packages.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_folder", "kernel_file"]

CACHE_VARIABLE = "EDGEC_CACHE_DIR"
"""The environment variable that names another folder."""
_LONGEST = 40


def cache_folder() -> Path:
    """edgec's folder among the user's caches, or the one that `$EDGEC_CACHE_DIR` names."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "edgec"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "edgec" / "Cache"
    shared = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(shared) if shared else Path.home() / ".cache") / "edgec"


def kernel_file(device: str) -> Path | None:
    """The file for a GPU's compiled kernels, by the name that its driver gives it.

    The driver's own version is no part of it: edgert looks at that, and does not use what another
    one compiled. None where no folder can be made, which costs time and nothing else.
    """
    try:
        folder = cache_folder() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    plain = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-")[:_LONGEST]
    return folder / f"{plain}-{hashlib.sha256(device.encode()).hexdigest()[:8]}.vulkan"
