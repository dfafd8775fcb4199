"""The checkout and its tracked files."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tracked() -> tuple[Path, ...]:
    """Every file that git knows and that is still there."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    files = (ROOT / name for name in listing.split("\0") if name)
    return tuple(file for file in files if file.is_file())
