"""The NVIDIA GPU of this machine, as NVIDIA's own tool names it."""

import shutil
import subprocess

__all__ = ["gpu"]


def gpu() -> str | None:
    """The first GPU's name and its driver's version; None where there is none."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    if not shutil.which(command[0]):
        return None
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    name, _, driver = (done.stdout.strip().splitlines() or [""])[0].partition(", ")
    return f"{name} (driver {driver})" if driver else None
