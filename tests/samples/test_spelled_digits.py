"""Training on edgec's CPU and on Vulkan has the losses of XLA's CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.runtime import pjrt_library
from edgec.runtime.errors import DeviceError

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "tests"
RUN = """
import sys
import edgec.plugins.jax
edgec.plugins.jax.initialize()
sys.path.insert(0, {folder!r})
import train
sys.argv = ["train.py", {what!r}]
train.main()
"""


@pytest.fixture(scope="module")
def plugin() -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEC_CACHE_DIR", str(BUILT))
        patch.delenv(pjrt_library.PJRT_VARIABLE, raising=False)
        try:
            return Path(pjrt_library.find_plugin.__wrapped__())
        except DeviceError as error:
            pytest.skip(str(error))


def losses(what: str, folder: Path, plugin: Path, **environment: str) -> tuple[list[float], str]:
    """The losses that a run prints, and what it says beside them."""
    code = RUN.format(folder=str(ROOT / "samples" / "spelled_digits"), what=what)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={
            **os.environ,
            "EDGEC_CACHE_DIR": str(folder),
            pjrt_library.PJRT_VARIABLE: str(plugin),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [float(line.split()[-1]) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)], ids=["cpu", "vulkan"]
)
@pytest.mark.parametrize("what", ["spell", "read"], ids=["encoder-decoder", "equinox"])
def test_training_has_the_losses_of_xla(
    what: str, device: str, tmp_path: Path, plugin: Path
) -> None:
    """Weights may be drawn by XLA's CPU, where the device's integers are of 32 bits; steps not."""
    wanted, _ = losses(what, tmp_path, plugin, JAX_PLATFORMS="cpu")
    asked = {"EDGEC_JAX_DEVICES": device, "EDGEC_JAX_REFUSED": "xla"}
    found, said = losses(what, tmp_path, plugin, JAX_PLATFORMS="edgec", **asked)
    assert "jit_step" not in said
    assert device != "cpu" or "XLA's CPU runs" not in said
    assert len(wanted) == 6
    assert wanted[-1] < wanted[0] / 2
    assert found == pytest.approx(wanted, abs=2e-3)
