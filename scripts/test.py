"""Run the quality checks and the tests, and end with one line that sums up: `N passed, N failed`.

Each file of tests runs in a process of its own, two at a time: frameworks and GPU drivers do not
all live in one process (TensorFlow and IREE's Vulkan driver crash each other, in either order), and
a crash costs one file, not the run. A file with tests marked `tensorflow` runs twice: once for
those, once for the others.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
FILE_TIMEOUT = 900.0  # seconds; several times what the slowest file takes
SLOW_TIMEOUT = 5400.0
NO_TESTS = 5  # pytest's exit code for an empty selection


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step came to; a step without tests counts none."""

    name: str
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    output: str = ""

    @property
    def line(self) -> str:
        """`ok      12.3 s    41 passed  tests/cli/test_run.py`."""
        state = "ok    " if self.ok else "FAILED"
        counts = f"{self.passed:5} passed"
        counts += f", {self.failed} failed" if self.failed else ""
        counts += f", {self.skipped} skipped" if self.skipped else ""
        return f"{state} {self.seconds:6.1f} s {counts}  {self.name}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One file of tests, or the part of it that a marker selects."""

    file: Path
    selection: str

    def outcome(self, *, slow: bool) -> Outcome:
        """Run it, and count."""
        name = f"{self.file.relative_to(ROOT)} ({self.selection})"
        selection = self.selection if slow else f"{self.selection} and not slow"
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [
                *(sys.executable, "-m", "pytest", "-q", "-m", selection, "--color=no"),
                *(f"--junitxml={report}", "-p", "no:cacheprovider", str(self.file)),
            ]
            try:
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    check=False,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    errors="replace",
                    timeout=SLOW_TIMEOUT if slow else FILE_TIMEOUT,
                )
            except subprocess.TimeoutExpired as late:
                output = (late.stdout or b"").decode(errors="replace")
                return Outcome(name=name, ok=False, failed=1, output=f"{output}\ntimed out")
            seconds = time.monotonic() - begin
            if not report.exists():
                return Outcome(
                    name=name,
                    ok=False,
                    failed=1,
                    seconds=seconds,
                    output=f"{done.stdout}\nexit status {done.returncode}",
                )
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
            seconds=seconds,
            output=done.stdout,
        )


def _runs(paths: list[str]) -> list[Run]:
    places = [ROOT / path for path in paths] or [ROOT / "tests"]
    files = [f for place in places for f in ([place] if place.is_file() else _files(place))]
    runs = []
    for file in files:
        runs.append(Run(file=file, selection="not tensorflow"))
        if "mark.tensorflow" in file.read_text(encoding="utf-8"):
            runs.append(Run(file=file, selection="tensorflow"))
    return runs


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def lint() -> list[Outcome]:
    """Style and types."""
    return [
        _step("ruff check", "ruff", "check", "."),
        _step("ruff format", "ruff", "format", "--check", "."),
        _step("mypy", "mypy"),
    ]


def tests(*, slow: bool, paths: list[str]) -> list[Outcome]:
    """Every file of tests, the largest first."""
    begin = time.monotonic()
    runs = sorted(_runs(paths), key=lambda run: -run.file.stat().st_size)
    print(f"\n== {len(runs)} files of tests, {WORKERS} at a time", flush=True)
    outcomes = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for finished in as_completed([pool.submit(run.outcome, slow=slow) for run in runs]):
            outcomes.append(finished.result())
            print(outcomes[-1].line, flush=True)
    print(f"{time.monotonic() - begin:.0f} s for the tests")
    return outcomes


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
        if not chosen.paths or "tests/c" in chosen.paths:
            outcomes.append(_step("sizes of edgert", "benchmarks.edgert.sizes"))
    for outcome in outcomes:
        if not outcome.ok:
            print(f"\n== FAILED: {outcome.name}\n{outcome.output}")
    print()
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


if __name__ == "__main__":
    sys.exit(main())
