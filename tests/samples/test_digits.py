"""The digits sample: the three commands of its README, and equal accuracy everywhere."""

import json
import re
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.vulkan
@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.slow)])
def test_the_three_commands_end_with_the_answers_of_jax_and_find_a_wrong_label(
    target: str, command, root: Path, tmp_path: Path
) -> None:
    sample = root / "samples" / "digits"
    command("python", sample / "data.py")
    command("edgec", "export", f"{sample / 'model.py'}:classifier", "-o", "digits.mlirbc")
    command("edgec", "compile", "digits.mlirbc", f"--target={target}", "-o", "digits.vmfb")
    device = {"cpu": "local-task", "vulkan": "vulkan"}[target]
    run = ("run", "digits.vmfb", f"--device={device}", "--input=@digits.npy")
    done = command("edgec", *run, "--json", "-o", "out.npz", "--expected=@labels.npy")
    assert json.loads(done.stdout)
    with np.load(tmp_path / "out.npz") as out:
        read = out["label"]
    labels = np.load(tmp_path / "labels.npy")
    np.testing.assert_array_equal(read, labels)
    assert np.mean(read == np.load(tmp_path / "truth.npy")) > 0.97

    labels[17] = (labels[17] + 1) % 10
    np.save(tmp_path / "wrong.npy", labels)
    done = command("edgec", *run, "--expected=@wrong.npy", code=23)
    assert "label" in done.stderr


@pytest.mark.slow  # The training sample compares JAX, the CPU and Vulkan, too.
@pytest.mark.vulkan
def test_accuracy_is_equal_in_jax_on_the_cpu_and_on_vulkan(command, root: Path) -> None:
    done = command("python", root / "samples" / "digits" / "run.py")
    rows = dict(re.findall(r"^(JAX|cpu|vulkan) +([\d.]+)%", done.stdout, re.MULTILINE))
    assert set(rows) == {"JAX", "cpu", "vulkan"}
    assert len(set(rows.values())) == 1
    assert float(rows["JAX"]) > 97
    errors = re.findall(r"\d\.\de-\d\d(?= +[\d.]+$)", done.stdout, re.MULTILINE)
    assert len(errors) == 2
    assert max(map(float, errors)) <= 1e-4
