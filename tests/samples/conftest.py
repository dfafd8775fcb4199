"""Samples are run as a user runs them: as commands, in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run `python …` or `edgec …` in an empty folder, and expect its exit code."""
    tools = {"python": sys.executable, "edgec": str(Path(sys.executable).with_name("edgec"))}

    def run(tool: str, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [tools[tool], *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{tool} {arguments}\n{done.stdout}\n{done.stderr}"
        return done

    return run
