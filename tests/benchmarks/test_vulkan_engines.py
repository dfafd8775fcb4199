"""Engines in processes of their own: what they answer, and what they cannot."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import edgec.toolchain as toolchain

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "vulkan"
PROGRAM = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch):
    """The script, which finds what lies beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER.parent / "cuda"))
    import networks

    yield networks
    for name in ("networks", "engines", "turns"):
        sys.modules.pop(name, None)


def _laid(folder: Path) -> Path:
    """A module, and what an engine reads beside it."""
    source = folder / "program.mlir"
    source.write_text(PROGRAM)
    options = toolchain.CompileOptions(output=folder / "module.vmfb", cache=False)
    x = np.arange(4, dtype=np.float32)
    np.savez(folder / "inputs.npz", x)
    np.save(folder / "truth.npy", 2.0 * x)
    toolchain.compile(source, "vulkan", options)
    return folder / "module.vmfb"


@pytest.mark.vulkan
def test_an_engine_answers_when_asked_and_is_stopped_between(networks, tmp_path: Path) -> None:
    module = _laid(tmp_path)
    with networks.Engine("edgert", module, tmp_path, 60) as engine:
        assert engine.ready["error"] == 0.0 and engine.ready["first_s"] > 0
        status = Path(f"/proc/{engine.pid}/stat")
        assert _state_soon(status, "T")
        assert 0 < engine.ask(calls=3)["s"] < 10
        assert _state_soon(status, "T")
        found = engine.ask(profile=True)
        assert found["count"] >= 1
    assert not status.exists()


def _state_soon(status: Path, wanted: str) -> bool:
    """Whether a process comes to be in that state; signals take a moment."""
    for _ in range(1000):
        if status.read_text().rpartition(")")[2].split()[0] == wanted:
            return True
        os.sched_yield()
    return False


def test_what_an_engine_cannot_is_its_own_word(networks, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", np.zeros(1, np.float32))
    missing = tmp_path / "none.vmfb"
    with pytest.raises(networks.Refused, match=r"none\.vmfb"):
        networks.Engine("edgert", missing, tmp_path, 60)
    with pytest.raises(networks.Refused, match="took longer than"):
        networks.Engine("edgert", missing, tmp_path, 0.01)
    with pytest.raises(networks.Refused, match="abacus"):
        networks.Engine("abacus", missing, tmp_path, 60)
