"""The operator benchmark makes a case with JAX and runs it, with edgec's passes and without."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.operators.catalogue import all_cases, find_case
from benchmarks.operators.sweep import Row
from benchmarks.operators.table import cases_of, page

ROOT = Path(__file__).resolve().parents[2]
KEY = "dot/matrix-f32"


def _lines(module: str, *arguments: str, key: str = KEY) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.operators.{module}", *arguments],
        cwd=ROOT,
        input=f"{key}\n",
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


def test_a_case_for_many_arguments_at_once_is_that_of_each(tmp_path: Path) -> None:
    key = f"{KEY}-x3"
    assert json.loads(_lines("make", str(tmp_path), key=key)[0])["ok"]
    (line,) = _lines("check", str(tmp_path), "cpu", "edgec", key=key)
    assert json.loads(line)["outcome"] == "right"
    with np.load(tmp_path / "dot--matrix-f32-x3.npz") as kept:
        left, right, answers = (kept[name] for name in ("i0", "i1", "o0"))
    for n in range(3):
        np.testing.assert_allclose(answers[n], left[n] @ right[n], rtol=1e-5)


def test_every_case_whose_arguments_are_drawn_is_found_for_many() -> None:
    many = [found for case in all_cases() if (found := case.many(32)) is not None]
    assert len(many) > 2000
    for case in many[::50]:
        assert find_case(case.key).key == case.key
    with pytest.raises(KeyError):
        find_case("dot/none-x32")


def test_a_module_that_is_made_here_is_judged_elsewhere_without_jax_or_the_compiler(
    tmp_path: Path,
) -> None:
    _lines("make", str(tmp_path))
    (made,) = _lines("check", str(tmp_path), "cpu", "module")
    assert json.loads(made)["outcome"] == "compiled"
    (line,) = _lines("answers", str(tmp_path), "edgert://cpu", "local-sync")
    found = json.loads(line)
    assert (found["outcome"], found["iree"], found["same"]) == ("right", "right", True)
    for answers in tmp_path.glob("*.npz"):  # which are another case's, from now on
        with np.load(answers) as kept:
            changed = {name: kept[name] + name.startswith("o") for name in kept.files}
        np.savez(answers, **changed)
    (line,) = _lines("answers", str(tmp_path), "edgert://cpu", "local-sync")
    assert json.loads(line)["outcome"] == "wrong"
    modules = "import sys, benchmarks.operators.elsewhere, benchmarks.operators.answers as a;"
    there = "print([name for name in ('jax', 'iree.compiler') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", modules + there],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_page_keeps_what_is_of_other_columns_and_says_how_many_cases_they_have() -> None:
    def rows(count: int, device: str) -> dict[str, Row]:
        made = [
            Row(
                key=f"dot/{n}",
                group="dot",
                outcome="right" if n else "wrong",
                reason="values are off; should be 1",
                seconds=1.0,
                commit="0123456789",
                iree="right",
                device=device,
            )
            for n in range(count)
        ]
        return {row.key: row for row in made}

    first = page({"cuda": rows(5, "NVIDIA X")}, {"jax": "1"}, "llvmpipe")
    both = page({"cpu": rows(3, "")}, {"jax": "1"}, "llvmpipe", first)
    assert [cases_of(both, name) for name in ("cuda", "cpu", "vulkan")] == [5, 3, 0]
    assert both.count("It ran on NVIDIA X.") == 1
    assert "`dot/0`" in both.partition("## Right on IREE's driver for cuda")[2]
