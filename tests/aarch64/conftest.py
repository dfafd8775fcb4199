"""An aarch64 machine: the reference runtime's own program for that machine, under qemu."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = Path("/usr/aarch64-linux-gnu")


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing: scripts/setup installs it")
    pytest.skip(f"no {what}: run scripts/setup")


@pytest.fixture(scope="session")
def iree_run_module() -> Path:
    """`iree-run-module` built for aarch64, from the wheel that scripts/setup unpacked."""
    if shutil.which("qemu-aarch64") is None:
        _missing("qemu-aarch64")
    if not LIBRARIES.exists():
        _missing("an aarch64 C library")
    found = sorted((ROOT / ".venv" / "aarch64").glob("*/iree/_runtime_libs/iree-run-module"))
    if not found:
        _missing("aarch64 runtime")
    return found[-1]


@pytest.fixture
def run_on_aarch64(iree_run_module: Path, tmp_path: Path) -> Callable[..., list[np.ndarray]]:
    """Call a function of a module on the emulated machine: inputs in order, outputs by number."""

    def run(
        module: Path, inputs: Mapping[str, np.ndarray], outputs: int, function: str = "main"
    ) -> list[np.ndarray]:
        for name, array in inputs.items():
            np.save(tmp_path / f"{name}.npy", array)
        done = subprocess.run(
            [
                *("qemu-aarch64", "-cpu", "max", "-L", str(LIBRARIES), str(iree_run_module)),
                *("--device=local-sync", f"--module={module}", f"--function={function}"),
                *(f"--input=@{tmp_path / name}.npy" for name in inputs),
                *(f"--output=@{tmp_path / f'out{i}'}.npy" for i in range(outputs)),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [np.load(tmp_path / f"out{i}.npy") for i in range(outputs)]

    return run
