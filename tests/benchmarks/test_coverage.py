"""The coverage table: what a row says, and that a case really runs in processes of its own."""

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.coverage.catalogue import FRAMEWORKS
from benchmarks.coverage.sweep import Row, Sweep
from benchmarks.coverage.table import page, state


def _row(export: str = "", **results: dict[str, Any]) -> Row:
    return Row(
        framework="JAX",
        name="MLP",
        dtype="f32",
        export=export,
        calls=1,
        results=results,
        seconds=1.0,
        fingerprint="",
        commit="0123456789",
    )


RIGHT = {"ok": True, "max_abs": 2.5e-7, "max_rel": 1e-6, "problem": ""}
WRONG = {"ok": False, "max_abs": 3.0, "max_rel": 1.0, "problem": "wrong answer in y: 1 of 2 | off"}
REFUSED = {"error": "CompileError", "what": "no code\nfor this"}


def test_each_outcome_has_its_word() -> None:
    assert state(_row(cpu=RIGHT, vulkan=WRONG), "cpu") == "right"
    assert state(_row(cpu=RIGHT, vulkan=WRONG), "vulkan") == "wrong"
    assert state(_row(cpu=REFUSED, vulkan=RIGHT), "cpu") == "refused"
    assert state(_row(export="UnsupportedOp: no"), "cpu") == "not exported"


def test_the_page_counts_and_explains() -> None:
    text = page(
        [_row(cpu=RIGHT, vulkan=WRONG), _row(cpu=REFUSED, vulkan=RIGHT)],
        versions={"jax": "1.2"},
        vulkan="a device",
    )
    assert "| JAX | 2 | 1 | 1 |" in text
    assert "right, 2e-07" in text
    assert "**wrong answer in y: 1 of 2 \\| off**" in text
    assert "refused: CompileError: no code for this" in text
    assert "jax 1.2. Measured at commit 0123456789." in text
    rows = [line for line in text.splitlines() if line.startswith("| MLP")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


@pytest.mark.vulkan
def test_a_case_is_measured_on_both_targets_and_kept(tmp_path: Path) -> None:
    told: list[bool] = []
    sweep = Sweep(
        store=tmp_path / "coverage.json", jobs=1, tell=lambda row, there: told.append(there)
    )
    rows = sweep.run(["JAX"], "two signatures")
    assert [state(rows[0], target) for target in ("cpu", "vulkan")] == ["right", "right"]
    assert rows[0].calls == 2
    assert sweep.run(["JAX"], "two signatures") == rows
    assert told == [False, True]


def test_every_framework_has_a_file_of_cases(root_of_benchmarks: Path) -> None:
    for module, name in FRAMEWORKS.values():
        assert f"\n{name} = (" in (root_of_benchmarks / "coverage" / f"{module}.py").read_text()


@pytest.fixture
def root_of_benchmarks() -> Path:
    return Path(__file__).resolve().parents[2] / "benchmarks"
