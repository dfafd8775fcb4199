import sys
from pathlib import Path

import pytest

from edgec.runtime.errors import DeviceError, FileError, ProgramError
from edgec.toolchain import isolate


def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    """Let `code` run where the child's Python would."""
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\n{code}\n")
    script.chmod(0o755)
    monkeypatch.setattr(isolate.sys, "executable", str(script))


def test_an_error_of_the_child_is_raised_here_with_its_type_and_hint(tmp_path: Path):
    with pytest.raises(FileError) as caught:
        isolate.call("describe", {"source": str(tmp_path / "none")}, subject="none", timeout=60)
    assert "none" in caught.value.what


def test_a_child_that_dies_is_an_error_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ProgramError, match=r"bad\.mlirbc died of SIGSEGV"):
        isolate.call("describe", {}, subject="bad.mlirbc", timeout=60)


def test_a_child_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stand_in(monkeypatch, tmp_path, "import time; time.sleep(60)")
    with pytest.raises(ProgramError, match="longer than 0 seconds"):
        isolate.call("describe", {}, subject="bad.mlirbc", timeout=0.2)


def test_a_child_that_fails_otherwise_shows_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in(monkeypatch, tmp_path, "raise SystemExit('no memory')")
    with pytest.raises(DeviceError) as caught:
        isolate.call(
            "check", {}, subject="m", timeout=60, died=lambda how: DeviceError(f"the check {how}")
        )
    assert caught.value.what == "the check failed with exit code 1 (no memory)"


def test_a_child_without_an_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stand_in(monkeypatch, tmp_path, "")
    with pytest.raises(ProgramError, match="without an answer"):
        isolate.call("describe", {}, subject="m", timeout=60)


@pytest.mark.parametrize("text", ["'a fault'", "'a fault\\n\\n'"])
def test_an_exception_of_edgec_itself_is_not_blamed_on_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
):
    stand_in(monkeypatch, tmp_path, f"raise RuntimeError({text})")
    with pytest.raises(ProgramError, match="edgec itself failed on m: RuntimeError: a fault"):
        isolate.call("describe", {}, subject="m", timeout=60)
