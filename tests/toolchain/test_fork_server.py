"""Children forked from one server: jobs, bad ends, and what becomes of them without a parent."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edgec.toolchain import fork_server

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="children are forked on Linux alone"
)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def _wait_for(condition) -> bool:
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    request = {"task": "describe", "arguments": {"source": str(tmp_path / "none.mlirbc")}}
    (tmp_path / "request.json").write_text(json.dumps(request))
    os.mkfifo(tmp_path / "never")  # who reads it waits
    return tmp_path


def _run(folder: Path, request: str = "request.json", *, timeout: float = 60) -> int | None:
    return fork_server.run(
        folder / request, folder / "reply.json", stderr=folder / "stderr.txt", timeout=timeout
    )


def _server() -> int:
    return fork_server._servers[0]._process.pid


def test_jobs_are_answered_by_children_of_one_server(folder: Path):
    assert _run(folder) == 0
    first = _server()
    assert "none.mlirbc" in json.loads((folder / "reply.json").read_text())["error"]["what"]
    (folder / "reply.json").unlink()
    assert _run(folder) == 0
    assert (folder / "reply.json").exists()
    assert _server() == first
    assert not _children(first)


def test_a_job_may_be_another_modules(folder: Path):
    request, reply = folder / "absent", folder / "stderr.txt"
    assert fork_server.run(request, reply, stderr=reply, timeout=60, module="tabnanny") == 1
    assert "takes 0 positional arguments but 2 were given" in reply.read_text()


def test_a_child_that_raises_leaves_its_traceback(folder: Path):
    assert _run(folder, "absent.json") == 1
    assert "FileNotFoundError" in (folder / "stderr.txt").read_text()


def test_a_child_that_is_killed_is_told_by_its_signal(folder: Path):
    assert _run(folder) == 0
    server, codes = _server(), []
    thread = threading.Thread(target=lambda: codes.append(_run(folder, "never")))
    thread.start()
    assert _wait_for(lambda: _children(server))
    os.kill(_children(server)[0], signal.SIGSEGV)
    thread.join()
    assert codes == [-signal.SIGSEGV]
    assert _run(folder) == 0
    assert _server() == server


def test_a_job_beside_another_is_left_to_a_process_of_its_own(folder: Path):
    assert _run(folder) == 0
    server = _server()
    thread = threading.Thread(target=_run, args=(folder, "never"))
    thread.start()
    assert _wait_for(lambda: _children(server))
    assert _run(folder) is None
    os.kill(_children(server)[0], signal.SIGKILL)
    thread.join()


def test_what_takes_too_long_is_killed(folder: Path):
    assert _run(folder) == 0
    server = _server()
    with pytest.raises(subprocess.TimeoutExpired):
        _run(folder, "never", timeout=0.2)
    assert not _running(server)
    assert _run(folder) == 0


def test_children_see_the_folder_and_the_environment_of_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    assert _run(folder) == 0
    server = _server()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EDGEC_NOTE", "now")
    thread = threading.Thread(target=_run, args=(folder, "never"))
    thread.start()
    assert _wait_for(lambda: _children(server))
    child = _children(server)[0]
    assert _wait_for(lambda: Path(f"/proc/{child}/cwd").resolve() == folder.resolve())
    os.kill(child, signal.SIGKILL)
    thread.join()
    monkeypatch.setenv("PYTHONHASHSEED", "1")  # counts at the start of a process
    assert _run(folder) == 0
    assert _server() != server


def test_a_server_may_be_a_fork_that_shares_what_this_process_imported(folder: Path):
    program = (
        "import json, sys; from edgec.toolchain import fork_server, forked, isolated\n"
        "isolated.main = lambda *names: names[1].write_text(json.dumps('left' in sys.modules))\n"
        "sys.modules['left'] = sys\n"
        "fork_server.fork(forked.main)\n"
        "print(fork_server._servers[0]._process.pid, flush=True)\n"
        f"from pathlib import Path; reply = Path({str(folder / 'reply.json')!r})\n"
        "for code in range(2):\n"
        "    assert fork_server.run(reply, reply, stderr=Path('/dev/null'), timeout=60) == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads((folder / "reply.json").read_text()) is True
    assert not _running(int(done.stdout))


def test_nothing_is_left_when_the_parent_is_killed(folder: Path):
    program = (
        "from pathlib import Path; from edgec.toolchain import fork_server;"
        f"fork_server.run(Path({str(folder / 'never')!r}), Path('r'), stderr=Path('/dev/null'),"
        "timeout=600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    assert _wait_for(lambda: _children(parent.pid) and _children(_children(parent.pid)[0]))
    (server,) = _children(parent.pid)
    (child,) = _children(server)
    parent.kill()
    parent.wait()
    assert _wait_for(lambda: not _running(server) and not _running(child))
