"""The zoo: subjects drawn by chance that is the same every time, rows kept, children contained."""

import sys
from pathlib import Path

import pytest

from benchmarks.coverage.process import in_child
from benchmarks.zoo.catalogue import KINDS, kind_of
from benchmarks.zoo.page import page
from benchmarks.zoo.plot import draw
from benchmarks.zoo.row import Row, Store
from benchmarks.zoo.subject import drawn


def row(name: str = "m", **parts: object) -> Row:
    return Row(kind="k", name=name, held_out=False, code="c", **parts)  # type: ignore[arg-type]


def test_the_order_depends_on_the_names_and_not_on_the_list() -> None:
    names = [f"model{n}" for n in range(200)]
    assert drawn("k", names) == drawn("k", names[::-1])
    assert [s.name for s in drawn("k", names)] != names
    assert 20 <= sum(s.held_out for s in drawn("k", names)) <= 60


def test_every_kind_lists_its_models() -> None:
    assert len(kind_of("users").names()) == 10
    assert set(KINDS) >= {"users", "onnx-nodes"}


def test_a_row_is_kept_and_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path / "zoo.jsonl")
    store.put(row(export={"error": "Crash", "what": "it died"}))
    store.put(row("n", results={"cpu": {"ok": True}}))
    store.put(row(results={"cpu": {"ok": False, "problem": "off", "where": "/a/b/m.py:3"}}))
    found = Store(tmp_path / "zoo.jsonl").rows
    assert {key: r.state("cpu") for key, r in found.items()} == {"k/m": "wrong", "k/n": "right"}
    assert found["k/m"].reason("cpu") == "off"
    assert found["k/m"].results["cpu"]["where"] == "m.py:3"  # folders are this machine's


def test_a_ratio_is_of_the_best_peer() -> None:
    times = {"1": {"edgec": 2.0, "ort": 3.0, "openvino": 1.0, "errors": {"ort": 1e-6}}}
    assert row(times=times).ratio(1) == (0.5, "openvino")
    assert row(times=times).ratio(2) is None
    assert row(times={"1": {"edgec": "refused", "ort": 3.0}}).ratio(1) is None


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "Crash"),
        ("import time; time.sleep(60)", "Timeout"),
        ("import time; held = bytearray(3 << 28); time.sleep(60)", "Memory"),
    ],
)
def test_a_child_that_fails_is_a_result(
    code: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("benchmarks.coverage.process.ROOT", tmp_path)
    found = in_child("failing", seconds=2 if error == "Timeout" else 30, memory=1 << 28)
    assert found["error"] == error


def test_the_page_says_what_is_right_and_how_fast(tmp_path: Path) -> None:
    times = {"1": {"edgec": 2.0, "ort": 3.0, "errors": {}}}
    fine = Row(
        kind="users",
        name="fine",
        held_out=True,
        code="c",
        results={"cpu": {"ok": True, "own": 0.98}, "vulkan": {"ok": True}},
        times=times,
    )
    wrong = Row(
        kind="users",
        name="other",
        held_out=False,
        code="c",
        results={"cpu": {"ok": False, "problem": "3 values | are off"}},
    )
    assert draw([fine, wrong], tmp_path / "zoo.png")
    assert (tmp_path / "zoo.png").stat().st_size > 1000
    text = page([fine, wrong], picture="zoo.png", commits={"0123456789"})
    assert "| users | held out | 1 | 1 of 1 (100%) | 1 of 1 (100%) |" in text
    assert "| users | worked on | 1 | 0 of 1 (0%, 1 wrong) |  |" in text
    assert "| fine | 2.00 ms, **1.50** (ort) | 98% |" in text
    assert "| other | wrong |  | 3 values \\| are off |" in text


def test_the_command_lists_what_it_would_do(tmp_path: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "benchmarks.zoo", "--list", "--name", "segformer"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "users/segformer_b0"
