"""`edgec tune`: what it finds is kept, shown and used; what cannot be tuned is one error."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edgec.cli.verbs.tune import parse_time
from edgec.runtime import load
from edgec.runtime.errors import UsageError
from edgec.toolchain.cache import CACHE_VARIABLE
from edgec.toolchain.tuning import Profile

PRODUCT = """
func.func public @main(%x: tensor<4x32xf32>) -> tensor<4x48xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<32x48xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x32xf32>, tensor<32x48xf32>) -> tensor<4x48xf32>
  return %0 : tensor<4x48xf32>
}
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    path = tmp_path / "product.mlir"
    path.write_text(PRODUCT)
    return path


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("90", 90), ("10m", 600), ("2min", 120), ("1h", 3600), ("0.5m", 30)],
)
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "0", "0s", "1d", "nan", "inf", "1e9", "1 2"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_time(text)


def test_what_cannot_be_tuned_is_one_error(edgec, product: Path) -> None:
    assert edgec("tune", product, "--budget=0").code == 2
    assert edgec("tune", product, "--target=vulkan:pixie").code == 20
    missing = edgec("tune", product, "--target=metal")
    assert missing.code == 41
    assert edgec("tune", product, "--device=vulkan").code == 2
    assert edgec("tune", product, "--function=nothing").code == 50
    assert edgec("tune", product, "--jobs=2", "--ray=auto").code == 2
    assert edgec("tune", "missing.mlirbc").code == 4
    Path("refused.mlir").write_text(PRODUCT.replace("dot_general", "no_such_operation"))
    assert edgec("tune", "refused.mlir").code == 15
    assert not list(Path().glob("*.tuned.json"))


def test_a_target_for_another_machine_is_refused_before_anything_is_compiled(
    edgec, product: Path
) -> None:
    done = edgec("tune", product, "--target=cpu:riscv64", "--budget=1s")
    assert done.code == 41
    assert "cpu:riscv64 is for riscv_64, and this machine, which would measure, is" in done.err
    assert "compiling" not in done.err


def test_a_damaged_or_foreign_profile_is_refused(edgec, product: Path, program: Path) -> None:
    Path("bad.json").write_text("{}")
    for line in (("compile", product, "--tuned=bad.json"), ("tune", product, "-o", "bad.json")):
        done = edgec(*line)
        assert done.code == 24
        assert "no tuning profile" in done.err


def test_tune_then_compile(edgec, product: Path) -> None:
    """A short run leaves a profile, says what comes next, and goes on where it stopped."""
    value = edgec("tune", product, "--budget=14s", "--json").json
    path = Path(value["profile"])
    assert path == product.with_name("product.cpu-host.tuned.json")
    assert value["before"] > 0
    assert value["gain"] >= 1.0
    assert value["next"].startswith("edgec compile ")
    found = Profile.load(path)
    assert len(found.trials) == len(value["trials"])

    done = edgec("tune", product, "--budget=0.1s")
    assert done.code == 0
    assert "going on from" in done.err
    assert "compiling the program as it is" in done.err
    assert done.out.rstrip().endswith(f"--tuned={path}")
    assert "times as fast" in done.out
    assert len(Profile.load(path).trials) == len(found.trials)

    # Where there were other answers to the questions, the winner would be another.
    changed = json.loads(path.read_text())
    changed["winner"]["level"] = 1
    path.write_text(json.dumps(changed))
    done = edgec("compile", product, f"--tuned={path}", "-o", "tuned.vmfb", "-v")
    assert done.code == 0
    assert "note: tuned on" in done.err
    assert "--iree-opt-level=O1" in done.err
    dry = edgec("compile", product, f"--tuned={path}", "-O3", "--dry-run")
    assert "--iree-opt-level=O3" in dry.out
    with load(Path("tuned.vmfb")) as module:
        x = np.arange(128, dtype=np.float32).reshape(4, 32) / 100
        want = x @ np.full((32, 48), 0.5, np.float32)
        np.testing.assert_allclose(module.main(x), want, rtol=1e-5)

    other = Path("other.mlir")
    other.write_text(PRODUCT.replace("0.5", "0.25"))
    foreign = edgec("compile", other, f"--tuned={path}")
    assert foreign.code == 24
    assert "another program" in foreign.err
    assert edgec("compile", other, f"--tuned={path}", "--dry-run").code == 24


def test_ctrl_c_keeps_the_best_so_far(product: Path, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    child = subprocess.Popen(
        [sys.executable, "-m", "edgec.cli", "tune", product, "--budget=10m", "-o", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {CACHE_VARIABLE: str(tmp_path / "cache")},
        # As a shell's foreground job has it, whatever this process ignores.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline and not (path.exists() and Profile.load(path).trials):
        assert child.poll() is None
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert child.returncode == 130, err
    kept = Profile.load(path)
    assert kept.trials
    assert not kept.finished
    assert "the best so far is kept" in err
    assert "next: edgec compile" in out
    assert "Traceback" not in err
