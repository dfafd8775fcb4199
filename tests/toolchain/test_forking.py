"""Work in a fork of this process: how it ends, and when there is none."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from edgec.toolchain import forking, isolate, isolated

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="processes are forked on Linux alone"
)


@pytest.fixture
def stderr(tmp_path: Path) -> Path:
    return tmp_path / "stderr.txt"


def test_work_is_done_by_another_process(tmp_path: Path, stderr: Path):
    where = tmp_path / "pid"
    assert forking.run(lambda: where.write_text(str(os.getpid())) and None, stderr=stderr) == 0
    assert int(where.read_text()) != os.getpid()


def test_work_that_raises_leaves_its_traceback(stderr: Path):
    assert forking.run(lambda: 1 / 0 and None, stderr=stderr) == 1
    assert "ZeroDivisionError" in stderr.read_text()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_work_that_dies_is_told_by_its_signal(stderr: Path, number: signal.Signals):
    def die() -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    assert forking.run(die, stderr=stderr) == -number


def test_work_that_takes_too_long_is_killed(tmp_path: Path, stderr: Path):
    where = tmp_path / "pid"

    def wait() -> None:
        where.write_text(str(os.getpid()))
        time.sleep(60)

    with pytest.raises(subprocess.TimeoutExpired):
        forking.run(wait, stderr=stderr, timeout=0.5)
    assert not Path("/proc", where.read_text()).exists()


def test_nothing_is_forked_beside_another_thread(stderr: Path):
    ending = threading.Event()
    thread = threading.Thread(target=ending.wait)
    thread.start()
    try:
        assert forking.run(lambda: None, stderr=stderr) is None
    finally:
        ending.set()
        thread.join()


@pytest.mark.parametrize("begin", [lambda: 1 / 0, lambda: os._exit(3)])
def test_a_fork_that_does_not_come_to_its_work_is_none(stderr: Path, begin):
    assert forking.run(lambda: None, begin=begin, stderr=stderr) is None


def test_tasks_are_forked_from_this_process_where_that_is_asked_for(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(isolate.fork_server, "run", None)  # who calls it fails
    missing = {"source": str(tmp_path / "none.mlirbc")}
    with (
        forking.everything_forked(isolated.main),
        pytest.raises(isolate.EdgecError, match=r"none\.mlirbc"),
    ):
        isolate.call("describe", missing, subject="it", timeout=60)
