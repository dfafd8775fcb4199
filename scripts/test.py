"""Run the quality checks and the tests, and end with one line that sums up: `N passed, N failed`.

TensorFlow and IREE's Vulkan driver crash in one process, in either order. So the tests run
twice: those marked `tensorflow`, then all others, each in worker processes of its own.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
WORKERS = "2"
NO_TESTS = 5  # pytest's exit code for an empty selection


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step came to; a step without tests counts none."""

    name: str
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def lint() -> list[Outcome]:
    """Style and types."""
    return [
        _step("ruff check", "ruff", "check", "."),
        _step("ruff format", "ruff", "format", "--check", "."),
        _step("mypy", "mypy"),
    ]


def tests(*, slow: bool, paths: list[str]) -> list[Outcome]:
    """Every test, TensorFlow's apart from all others."""
    speed = "" if slow else " and not slow"
    return [
        _pytest("tests", f"not tensorflow{speed}", paths),
        _pytest("tests on TensorFlow", f"tensorflow{speed}", paths),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="folders or files of tests (default: all)")
    parser.add_argument("--all", action="store_true", help="the slow sweeps too")
    parser.add_argument("--lint-only", action="store_true", help="style and types, no tests")
    chosen = parser.parse_args()
    begin = time.monotonic()
    outcomes = lint()
    if not chosen.lint_only:
        outcomes += tests(slow=chosen.all, paths=chosen.paths)
    print()
    for outcome in outcomes:
        print(f"{'ok    ' if outcome.ok else 'FAILED'}  {outcome.name}")
    if not chosen.lint_only:
        passed, failed, skipped = (
            sum(getattr(outcome, kind) for outcome in outcomes)
            for kind in ("passed", "failed", "skipped")
        )
        print(f"{time.monotonic() - begin:.0f} s in all")
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def _step(name: str, module: str, *arguments: str) -> Outcome:
    print(f"== {name}", flush=True)
    done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False)
    return Outcome(name=name, ok=done.returncode == 0)


def _pytest(name: str, selection: str, paths: list[str]) -> Outcome:
    print(f"\n== {name} (-m {selection!r})", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-m", selection),
                *("-n", WORKERS, "--dist", "loadfile", "--durations=10"),
                *(f"--junitxml={report}", *paths),
            ],
            cwd=ROOT,
            check=False,
        )
        if not report.exists():
            return Outcome(name=name, ok=False)
        suites = list(ElementTree.parse(report).iter("testsuite"))

    def count(kind: str) -> int:
        return sum(int(suite.get(kind, 0)) for suite in suites)

    failed = count("failures") + count("errors")
    return Outcome(
        name=name,
        ok=done.returncode in (0, NO_TESTS),
        passed=count("tests") - failed - count("skipped"),
        failed=failed,
        skipped=count("skipped"),
    )


if __name__ == "__main__":
    sys.exit(main())
