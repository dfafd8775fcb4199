import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from edgec.runtime.errors import CompileError
from edgec.toolchain.process import (
    Finished,
    compiler_path,
    compiler_version,
    keep_log,
    run_compiler,
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_exit_status_and_everything_printed_come_back(tmp_path: Path):
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    finished = run_compiler(python(code))
    assert finished.code == 3
    assert sorted(finished.stderr.split()) == ["err", "out"]
    assert not finished.timed_out


def test_time_is_told_while_it_works(tmp_path: Path):
    told: list[float] = []
    run_compiler(python("import time; time.sleep(0.7)"), tick=told.append)
    assert len(told) >= 2
    assert told == sorted(told)


def test_what_takes_too_long_is_killed_with_its_children(tmp_path: Path):
    marker = tmp_path / "pid"
    code = (
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(marker)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    finished = run_compiler(python(code), timeout=2)
    assert finished.timed_out
    assert finished.seconds < 20
    assert is_gone(int(marker.read_text()))


def test_an_interrupt_ends_the_compiler_and_goes_on_up(tmp_path: Path):
    marker = tmp_path / "pid"
    code = (
        f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(60)"
    )

    def interrupt() -> None:
        while not marker.exists() or not marker.read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    # A job in a shell's background starts with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_compiler(python(code))
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert is_gone(int(marker.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only")
def test_memory_beyond_the_limit_is_refused(tmp_path: Path):
    code = "import time; time.sleep(0.5); bytearray(2 << 30)"
    finished = run_compiler(python(code), memory=1 << 30)
    assert "MemoryError" in finished.stderr


def test_a_command_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(CompileError, match="cannot start"):
        run_compiler([str(tmp_path / "none")])


def test_a_log_holds_the_command_and_the_output_and_old_logs_go(tmp_path: Path):
    finished = Finished(code=1, stderr="error: no", seconds=0.1)
    paths = {keep_log(f"m{n}", ["iree-compile", "x"], finished) for n in range(35)}
    path = keep_log("last", ["iree-compile", "x"], finished)
    assert path is not None
    assert path.is_relative_to(tmp_path)
    text = path.read_text()
    assert "$ iree-compile x" in text
    assert "error: no" in text
    assert len(list(path.parent.glob("*.log"))) == 30
    assert None not in paths


def is_gone(pid: int) -> bool:
    """Whether the process ended (a zombie has); given two seconds for it."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs mounts of its own")
@pytest.mark.parametrize("size", ["8k", "48k"])
def test_a_full_temporary_folder_is_said(tmp_path: Path, size: str) -> None:
    """On a disk that is too small for edgec's own files, or for the compiler's."""
    scratch = tmp_path / "small"
    scratch.mkdir()
    (tmp_path / "x.mlir").write_text(
        "func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
        "%0 = stablehlo.dot %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"
        "return %0 : tensor<64x64xf32> }"
    )
    edgec = Path(sys.executable).with_name("edgec")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size={size} tmpfs small || exit 99\n"
         f"TMPDIR=$PWD/small {edgec} compile x.mlir -o x.vmfb --no-cache"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "EDGEC_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    if done.returncode == 99:
        pytest.skip("mounts of one's own are not allowed here")
    assert done.returncode == 4, done.stderr
    assert re.search(r"error: .*no space (is )?left", done.stderr, re.IGNORECASE)
    assert str(scratch) in done.stderr
    assert not (tmp_path / "x.vmfb").exists()


def test_the_compiler_and_its_linker_write_where_python_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "not there"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = run_compiler(["sh", "-c", 'echo "$TMPDIR"'])
    assert done.stderr.strip() == tempfile.gettempdir() != str(tmp_path / "not there")


def test_the_compiler_is_the_program_and_not_a_script_around_it():
    assert compiler_path().read_bytes()[:2] != b"#!"
    printed = subprocess.run([compiler_path(), "--version"], capture_output=True, text=True)
    assert f"IREE compiler version {compiler_version()}" in printed.stdout


def test_the_script_is_asked_where_its_program_is_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("IREE_TOOL_PATH", "/elsewhere")
    assert compiler_path() == Path(sys.executable).with_name("iree-compile")
