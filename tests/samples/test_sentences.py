"""The sentences sample: rankings equal to PyTorch's, from one weights file for both modules."""

import re
from pathlib import Path

import pytest


@pytest.mark.slow  # `make demo` runs the same
@pytest.mark.vulkan
def test_rankings_are_equal_to_pytorchs(command, root: Path, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    done = command("python", root / "samples" / "sentences" / "run.py", "--keep", keep)
    rows = re.findall(r"^(cpu|vulkan) +(\d\.\de-\d\d) +(\d+) of (\d+)", done.stdout, re.MULTILINE)
    assert [row[0] for row in rows] == ["cpu", "vulkan"]
    for _, error, same, questions in rows:
        assert float(error) <= 1e-4
        assert same == questions == "8"
    modules = sorted(path.stat().st_size for path in keep.glob("*.vmfb"))
    assert len(modules) == 2
    assert modules[-1] < 1 << 20
    assert (keep / "sentences.safetensors").stat().st_size > 80_000_000
