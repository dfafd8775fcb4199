"""The operator benchmark makes a case with JAX and runs it, with edgec's passes and without."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEY = "dot/matrix-f32"


def _lines(module: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.operators.{module}", *arguments],
        cwd=ROOT,
        input=f"{KEY}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_case_is_made_and_right_with_edgecs_passes_and_without(tmp_path: Path) -> None:
    assert len(_lines("make", str(tmp_path))) == 1
    for how in ("edgec", "plain"):
        (line,) = _lines("check", str(tmp_path), "cpu", how)
        found = json.loads(line)
        assert found["outcome"] == "right", found
        beside = {"edgec": ("right", True), "plain": ("", False)}[how]
        assert (found["iree"], found["same"]) == beside
