"""The training sample: in compiled modules the loss falls as in JAX, and accuracy with it rises."""

import re
from pathlib import Path

import pytest

ROW = re.compile(
    r"^(JAX|cpu|vulkan) +([\d.]+) +([\d.]+) +([\d.]+)% +([\d.]+)%(?: +([\d.e-]+))?$", re.MULTILINE
)


@pytest.mark.vulkan
def test_the_loss_falls_in_every_module_as_in_jax(command, root: Path, tmp_path: Path) -> None:
    sample = root / "samples" / "on_device_training" / "run.py"
    done = command("python", sample, "--steps", "60", "--plot", "loss.png")
    rows = {row[0]: row[1:] for row in ROW.findall(done.stdout)}
    assert set(rows) == {"JAX", "cpu", "vulkan"}
    for first, last, before, after, furthest in rows.values():
        assert float(last) < float(first) / 2
        assert float(after) > float(before) + 15
        assert float(furthest or 0) <= 1e-4
    assert len({row[:4] for row in rows.values()}) == 1
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow  # The sample's own run makes the same program, and computes with it.
def test_the_bundle_exports_compiles_and_shows_both_functions(command, root: Path) -> None:
    reader = root / "samples" / "on_device_training" / "reader.py"
    command("edgec", "export", f"{reader}:personal_reader", "-o", "reader.mlirbc")
    command("edgec", "compile", "reader.mlirbc", "--target=cpu", "-o", "reader.vmfb")
    shown = command("edgec", "inspect", "reader.vmfb", "--json").stdout
    assert '"predict"' in shown
    assert '"train_step"' in shown
