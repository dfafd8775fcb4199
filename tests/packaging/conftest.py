"""The digits sample as a program of one image, and the compilers that packages are built with."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain import Program, load_program
from edgec.toolchain.cache import CACHE_VARIABLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ.setdefault(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def digits() -> Program:
    """The trained network of samples/digits for one image, with its golden answers.

    Exported once for all test files: with JAX that takes longer than most of their tests.
    """
    sample = ROOT / "samples" / "digits"
    newest = max(file.stat().st_mtime_ns for file in sample.glob("*.*"))
    folder = ROOT / "build" / "packaging" / str(newest)
    folder.mkdir(parents=True, exist_ok=True)
    code = (
        "import sys; from pathlib import Path; import model; from edgec import exporters\n"
        "read, (images,) = model.classifier()\n"
        "exporters.export(read, (images[:1],)).save(Path(sys.argv[1]))\n"
    )
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "digits.mlirbc").exists():
            run(sys.executable, "-c", code, folder / "digits.mlirbc", cwd=sample)
    return load_program(folder / "digits.mlirbc")


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    """Some held-out digits: f32[n, 8, 8], as the sample splits them."""
    from sklearn.datasets import load_digits

    return load_digits().images[-8:].astype(np.float32)


def run(*command: str | Path, code: int = 0, **options: object) -> str:
    """Run a command that must end with this code; what it printed on both streams."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        **options,
    )
    assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def need(*tools: str) -> None:
    """Skip where a tool is missing; fail in CI, where scripts/setup has installed it."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"{', '.join(missing)} missing: scripts/setup installs it")
    if missing:
        pytest.skip(f"no {', '.join(missing)}: run scripts/setup")
