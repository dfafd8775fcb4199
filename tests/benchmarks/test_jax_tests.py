"""What JAX's own tests say on two platforms becomes a table of what is missing on one."""

from pathlib import Path

from benchmarks.jax_tests.cases import listed, tried
from benchmarks.jax_tests.report import cause, page

CASES = """
import os
import unittest

class Some(unittest.TestCase):
    def test_right(self):
        pass
    def test_wrong(self):
        raise ValueError("12 is not 13")
    def test_deadly(self):
        os._exit(3)
    @unittest.skip("for others")
    def test_elsewhere(self):
        pass
"""


def test_a_case_that_kills_its_process_stops_no_other(tmp_path: Path) -> None:
    file = tmp_path / "some_test.py"
    file.write_text(CASES)
    names = listed(file)
    assert names == [f"Some.test_{each}" for each in ("deadly", "elsewhere", "right", "wrong")]
    found = dict(tried(file, "cpu", names))
    assert {name.removeprefix("Some.test_"): each["outcome"] for name, each in found.items()} == {
        "deadly": "failed",
        "elsewhere": "skipped",
        "right": "passed",
        "wrong": "failed",
    }
    assert cause(found["Some.test_deadly"]["said"]) == "the process died (N)"
    assert cause(found["Some.test_wrong"]["said"]) == "ValueError: N is not N"


def test_shares_are_of_what_passes_on_the_other_platform() -> None:
    good, bad = {"outcome": "passed"}, {"outcome": "failed", "said": "E\nedgec: no f8 at 3"}
    results = {
        "lax_test": {
            "cpu": {"a": good, "b": good, "c": bad, "d": good},
            "edgec": {"a": good, "b": bad, "c": bad, "d": {"outcome": "skipped"}},
        }
    }
    results["qdwh_test"] = {"cpu": {"f": good}, "edgec": {"f": bad}}
    held_out = {"nn_test": {"cpu": {"e": good}, "edgec": {"e": good}}}
    several = {"pjit_test": {"cpu": {"g": good, "h": good}, "edgec": {"g": good, "h": bad}}}
    mended = {**good, "first": "failed"}
    later = {"core_test": {"cpu": {"i": good, "j": good}, "edgec": {"i": mended, "j": good}}}
    text = page(results, held_out, several, later, "1.2", ["0123456789"])
    assert "**1 of 2 pass (50.0%)" in text
    assert "| `lax_test.py` | 4 | 3 | 1 | 1 | 50.0% |" in text
    assert "1 of 49 other files" in text
    assert "**0 of 1 pass (0.0%)**" in text
    assert "| `qdwh_test.py` | 1 | 1 | 0 | 0 | 0.0% |" in text
    assert "| `pjit_test.py` | 2 | 2 | 1 | 0 | 50.0% |" in text
    assert "| 3 | `edgec: no f8 at N` |" in text
    assert "At first 1 of 2 pass (50.0%), " in text
    assert "| `core_test.py` | 2 | 2 | 2 | 0 | 100.0% |" in text
    assert "(`--held-out`): **1 of 1 pass (100.0%)**" in text
    assert "| `nn_test.py` | 1 | 1 | 1 | 0 | 100.0% |" in text
    assert "Measured at commit 0123456789." in text
