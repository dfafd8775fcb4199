"""The PJRT plugin, built once, and scripts that run on its platform."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgec.runtime import pjrt_library
from edgec.runtime.errors import DeviceError

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "tests"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def plugin() -> Iterator[Path]:
    """The plugin's library, built once for each state of its sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEC_CACHE_DIR", str(BUILT))
        patch.delenv(pjrt_library.PJRT_VARIABLE, raising=False)
        try:
            yield pjrt_library.find_plugin.__wrapped__()
        except DeviceError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="module")
def run(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a script on edgec's platform, with a cache of this module's own."""
    cache = tmp_path_factory.mktemp("jax")

    def run(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", str(script), *arguments],
            env={
                **os.environ,
                "JAX_PLATFORMS": "edgec",
                "EDGEC_CACHE_DIR": str(cache),
                pjrt_library.PJRT_VARIABLE: str(plugin),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What went wrong in each program, once all have run."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


def moved(script: Path, folder: Path) -> Path:
    """The same script with every program in another line."""
    other = folder / "moved.py"
    other.write_text("\n\n" + script.read_text())
    return other


def kept_modules(run: Run, folder: Path) -> set[str]:
    """The files that say of a module in the cache what it is."""
    listing = folder / "listing.py"
    listing.write_text(
        "import os, pathlib\n"
        "for file in pathlib.Path(os.environ['EDGEC_CACHE_DIR']).rglob('*.json'):\n"
        "    print(file.name if 'donated' in file.read_text() else '')\n"
    )
    return set(run(listing).stdout.split())
