"""The Keras sample: its commands with a dynamic batch, and Keras' own pictures everywhere."""

import re
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.slow  # test_from_keras.py has a file with a dynamic batch, on Vulkan too.
@pytest.mark.vulkan
def test_the_commands_denoise_any_number_of_tiles_as_keras_does(
    command, root: Path, tmp_path: Path
) -> None:
    sample = root / "samples" / "keras"
    command("python", sample / "pictures.py")
    command("python", sample / "answers.py", "noisy-13.npy", "keras.npy")
    export = ("export", sample / "denoiser.keras", "--dynamic", "batch=1..64")
    command("edgec", *export, "-o", "denoiser.mlirbc")
    command("edgec", "compile", "denoiser.mlirbc", "--target=vulkan", "-o", "denoiser.vmfb")
    run = ("run", "denoiser.vmfb", "--device=vulkan", "--input=@noisy-13.npy")
    command("edgec", *run, "--expected=@keras.npy", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        (denoised,) = out.values()
    expected = np.load(tmp_path / "keras.npy")
    assert denoised.shape == (13, 32, 32, 3)
    np.testing.assert_allclose(denoised, expected, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.vulkan
def test_quality_is_that_of_keras_at_every_batch_size(command, root: Path) -> None:
    done = command("python", root / "samples" / "keras" / "run.py")
    rows = re.findall(
        r"^(Keras|cpu|vulkan) +(\d*) +([\d.]+) dB(?: +([\d.e-]+))?", done.stdout, re.M
    )
    assert {(where, batch) for where, batch, _, _ in rows} == {
        ("Keras", ""),
        *((where, batch) for where in ("cpu", "vulkan") for batch in ("1", "5", "13")),
    }
    assert len({quality for _, _, quality, _ in rows}) == 1
    noise = float(re.search(r"with noise ([\d.]+) dB", done.stdout)[1])
    assert float(rows[0][2]) > noise + 4
    assert max(float(error) for _, _, _, error in rows if error) <= 1e-4
