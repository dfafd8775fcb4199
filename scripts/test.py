"""Run the quality checks and the tests, and end with one line that sums up: `N passed, N failed`.

Each file of tests runs in a process of its own, a few at a time (`test_processes`): frameworks and
GPU drivers do not all live in one process (TensorFlow and IREE's Vulkan driver crash each other, in
either order), and a crash costs one file, not the run. A file with some tests marked `tensorflow`
runs twice: once for those, once for the others. What each printed stays in build/tests.
"""

import argparse
import ast
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from test_processes import Ended, Job, warm
from test_processes import run as run_jobs

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build"
WORKERS = min(os.cpu_count() or 1, 4) + 1
"""One more than cores, since a file of tests waits for disks and devices an eighth of its time."""
FILE_TIMEOUT = 900.0  # seconds; several times what the slowest file takes
SLOW_TIMEOUT = 5400.0
NO_TESTS = 5  # pytest's exit code for an empty selection
TENSORFLOW = "tensorflow"  # the mark
FIRST = ("tests/samples", "tests/c/test_fuzzing.py", "tests/packaging/test_manifests.py")
"""Short files whose tests take long: begun last, they would run while a core has nothing to do."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step came to; a step without tests counts none. `work` is seconds of a core."""

    name: str
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    work: float = 0.0
    output: str = ""

    @property
    def line(self) -> str:
        """`ok      12.3 s    10.9 s of a core    41 passed  tests/cli/test_run.py`."""
        state = "ok    " if self.ok else "FAILED"
        counts = f"{self.passed:5} passed"
        counts += f", {self.failed} failed" if self.failed else ""
        counts += f", {self.skipped} skipped" if self.skipped else ""
        times = f"{self.seconds:6.1f} s {self.work:6.1f} s of a core"
        return f"{state} {times} {counts}  {self.name}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One file of tests, or the part of it that a marker selects."""

    file: Path
    selection: str

    @property
    def name(self) -> str:
        """`tests/cli/test_run.py (not tensorflow)`."""
        return f"{self.file.relative_to(ROOT)} ({self.selection})"

    @property
    def report(self) -> Path:
        """Where pytest writes what became of each test."""
        stem = self.file.relative_to(ROOT).with_suffix("")  # tests/…
        return LOGS / stem.with_name(f"{stem.name}-{self.selection.replace(' ', '-')}.xml")

    def job(self, *, slow: bool, folder: Path) -> Job:
        """The call of pytest, with a folder for what its tests write.

        In the folder that is usual, files that are tested at a time clear up beneath each other.
        """
        self.report.unlink(missing_ok=True)
        selection = self.selection if slow else f"{self.selection} and not slow"
        return Job(
            arguments=(
                *("-q", "-m", selection, "--color=no", f"--junitxml={self.report}"),
                *("-p", "no:cacheprovider", f"--basetemp={folder}", str(self.file)),
            ),
            output=self.report.with_suffix(".txt"),
            timeout=SLOW_TIMEOUT if slow else FILE_TIMEOUT,
            alone=self.selection == TENSORFLOW,
        )

    def outcome(self, ended: Ended) -> Outcome:
        """Count what became of the tests."""
        output = self.report.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
        if ended.late or not self.report.exists():
            how = "timed out" if ended.late else f"exit status {ended.code}"
            return Outcome(
                name=self.name,
                ok=False,
                failed=1,
                seconds=ended.seconds,
                work=ended.work,
                output=f"{output}\n{how}",
            )
        suites = list(ElementTree.parse(self.report).iter("testsuite"))

        def count(kind: str) -> int:
            return sum(int(suite.get(kind, 0)) for suite in suites)

        failed = count("failures") + count("errors")
        return Outcome(
            name=self.name,
            ok=ended.code in (0, NO_TESTS),
            passed=count("tests") - failed - count("skipped"),
            failed=failed,
            skipped=count("skipped"),
            seconds=ended.seconds,
            work=ended.work,
            output=output,
        )


def _runs(paths: list[str]) -> list[Run]:
    places = [ROOT / path for path in paths] or [ROOT / "tests"]
    files = [f for place in places for f in ([place] if place.is_file() else _files(place))]
    runs = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        if not _is_marked(ast.parse(text)):
            runs.append(Run(file=file, selection=f"not {TENSORFLOW}"))
        if f"mark.{TENSORFLOW}" in text:
            runs.append(Run(file=file, selection=TENSORFLOW))
    return runs


def _place(run: Run) -> tuple[bool, int]:
    """What sorts those that take longest to the front: mostly the largest."""
    first = run.file.relative_to(ROOT).as_posix().startswith(FIRST)
    return not first, -run.file.stat().st_size


def _is_marked(tree: ast.Module) -> bool:
    """Whether a whole file is marked `tensorflow`."""
    return any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and f"mark.{TENSORFLOW}" in ast.unparse(node.value)
        for node in tree.body
    )


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


@dataclass(frozen=True, kw_only=True)
class Check:
    """A program that says by its exit code whether all is well, run beside the tests."""

    name: str
    module: str
    fast: tuple[str, ...] = ()
    """What it is given where slow tests are left out."""

    @property
    def output(self) -> Path:
        """Where it prints."""
        return LOGS / "tests" / f"{self.module}.txt"

    def job(self, *, slow: bool, folder: Path) -> Job:
        """The call; it needs no folder."""
        del folder
        return Job(
            arguments=() if slow else self.fast,
            output=self.output,
            timeout=FILE_TIMEOUT,
            module=self.module,
        )

    def outcome(self, ended: Ended) -> Outcome:
        """What it came to, with all that it printed."""
        return Outcome(
            name=self.name,
            ok=ended.code == 0,
            seconds=ended.seconds,
            work=ended.work,
            output=self.output.read_text(encoding="utf-8", errors="replace"),
        )


TYPES = Check(name="mypy", module="mypy")
SIZES = Check(name="sizes of edgert", module="benchmarks.edgert.sizes", fast=("--few",))


def lint() -> list[Outcome]:
    """Style."""
    return [
        _step("ruff check", "ruff", "check", "."),
        _step("ruff format", "ruff", "format", "--check", "."),
    ]


def tests(*, slow: bool, paths: list[str]) -> list[Outcome]:
    """Every file of tests, the longest first, and the checks that take long beside them."""
    begin = time.monotonic()
    runs: list[Run | Check] = [TYPES]
    if not paths or "tests/c" in paths:
        runs.append(SIZES)
    runs += sorted(_runs(paths), key=_place)
    named = {run.name: run for run in runs}
    print(f"\n== {len(runs)} files of tests and checks, {WORKERS} at a time", flush=True)
    warm()
    from edgec.toolchain import fork_server, forked  # with what `warm` imported

    outcomes = []
    with _temporary() as folder:
        jobs = [
            (run.name, run.job(slow=slow, folder=folder / str(number)))
            for number, run in enumerate(runs)
        ]
        for name, ended in run_jobs(jobs, WORKERS, begin=partial(fork_server.fork, forked.main)):
            outcomes.append(named[name].outcome(ended))
            print(outcomes[-1].line, flush=True)
            if name == SIZES.name:
                print(outcomes[-1].output, flush=True)
    work = sum(outcome.work for outcome in outcomes) + time.process_time()
    print(f"{time.monotonic() - begin:.0f} s for the tests, {work:.0f} s of a core")
    return outcomes


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A folder until this process leaves it; those that are forked meanwhile leave it alone."""
    folder, owner = Path(tempfile.mkdtemp(prefix="edgec-")), os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="folders or files of tests (default: all)")
    parser.add_argument("--all", action="store_true", help="the slow sweeps too")
    parser.add_argument("--lint-only", action="store_true", help="style and types, no tests")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    sys.path[0] = str(ROOT)  # as `python -m pytest` has it
    # Else each of some thousand processes would compile what it imports of edgec anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Threads of OpenMP's that have nothing to do would spin on cores that other files wait for:
    # an eighth of what tests of PyTorch take.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    begin = time.monotonic()
    outcomes = lint()
    if chosen.lint_only:
        outcomes.append(_step("mypy", "mypy"))
    else:
        outcomes += tests(slow=chosen.all, paths=chosen.paths)
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
    status = main()
    sys.stdout.flush()
    os._exit(status)  # The bindings' words on what is left of them would follow the last line.
