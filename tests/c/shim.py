"""A Vulkan library that stands before the real one, and hides or fails what a test says."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.c.conftest import run

__all__ = ["behind", "built"]

HERE = Path(__file__).parent


def built(folder: Path) -> Path:
    """A folder with it as `libvulkan.so.1`; the test is skipped where it cannot be built."""
    if not Path("/usr/include/vulkan/vulkan_core.h").is_file():
        if os.environ.get("CI"):
            pytest.fail("Vulkan's headers are missing: scripts/setup installs them")
        pytest.skip("no headers of Vulkan: run scripts/setup")
    run(
        *("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
        *(HERE / "vulkan_shim.c", "-ldl", "-o", folder / "libvulkan.so.1"),
    )
    return folder


def behind(shim: Path, **settings: str) -> dict[str, str]:
    """The variables of a process that finds the shim, which does as the settings say."""
    real = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libvulkan\.so\.1 .*=> (\S+)", real)
    assert found, real
    told = {f"SHIM_{name.upper()}": value for name, value in settings.items()}
    return os.environ | {"LD_LIBRARY_PATH": str(shim), "SHIM_REAL": found[1]} | told
