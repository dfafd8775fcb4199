"""What holds for every verb: exit codes, streams, errors as text and as JSON."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgec.cli import app
from edgec.cli.ending import EXITS
from edgec.cli.main import EXIT_BROKEN_PIPE, EXIT_BUG, EXIT_INTERRUPTED, execute
from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime import errors
from edgec.runtime.errors import EdgecError

COMMAND = str(Path(sys.executable).with_name("edgec"))
ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("jax", "torch", "tensorflow", "iree.compiler", "iree.runtime", "numpy")


def test_the_version_is_the_packages(edgec) -> None:
    done = edgec("--version")
    assert (done.code, done.out, done.err) == (0, "edgec 0.1.0\n", "")


def test_without_a_verb_there_is_help(edgec) -> None:
    done = edgec()
    assert done.code == 0
    assert all(verb in done.out for verb in app.VERBS)


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_has_help_json_and_the_shared_flags(edgec, verb: str) -> None:
    done = edgec(verb, "--help")
    assert done.code == 0
    for flag in ("--json", "--verbose", "--quiet", "--help"):
        assert flag in done.out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom edgec.cli.main import execute\n"
        "assert execute(['run', '--help']) == 0\nassert execute(['--help']) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["comple"], "No such command 'comple'"),
        (["run"], "Missing argument 'MODULE'"),
        (["run", "a.vmfb", "--bogus"], "No such option: --bogus"),
        (["compile", "a.mlir", "-O", "x"], "-O"),
        (["bench", "a.vmfb", "--threads=0"], "--threads"),
        (["--bogus"], "No such option: --bogus"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_says_where_to_look(
    edgec, arguments: list[str], what: str
) -> None:
    done = edgec(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert what in done.err
    assert "--help" in done.err
    as_json = edgec(*arguments, "--json")
    assert as_json.code == 2
    assert as_json.err == ""
    assert as_json.json["schema"] == 1
    error = as_json.json["error"]
    assert error["code"] == "UsageError"
    assert error["exit_code"] == 2
    assert what in error["what"]
    assert list(error) == ["code", "what", "where", "hint", "log", "exit_code"]


def test_every_error_has_an_exit_code_of_its_own_and_is_documented() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    codes = {kind: kind.exit_code for kind in kinds}
    codes_used = [*codes.values(), EXIT_BUG, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE]
    codes_used += EXITS.values()
    assert len(set(codes_used)) == len(codes_used)
    page = (ROOT / "docs/exit-codes.md").read_text()
    rows = dict(re.findall(r"^\| (\d+) \|(?: `(\w+)`)? \|", page, re.MULTILINE))
    for kind, code in codes.items():
        assert rows[str(code)] == kind.__name__
    assert {int(code) for code in rows} == {0, *codes_used}


def test_an_error_is_text_on_stderr_and_json_on_stdout(edgec, tmp_path: Path) -> None:
    missing = tmp_path / "none.vmfb"
    done = edgec("inspect", missing)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith(f"error: cannot read {missing}")
    value = edgec("inspect", missing, "--json").json
    assert (value["schema"], value["verb"]) == (1, "inspect")
    assert value["error"]["code"] == "FileError"


def _replace_targets(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def verb(session: Session) -> Report:
        """Raise."""
        raise error

    monkeypatch.setitem(app.VERBS, "targets", verb)


def test_a_bug_is_one_paragraph_and_a_log(
    edgec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _replace_targets(monkeypatch, ZeroDivisionError("oh\nno"))
    done = edgec("targets")
    assert done.code == EXIT_BUG
    assert "Traceback" not in done.err
    assert "edgec itself failed: ZeroDivisionError: oh" in done.err
    (log,) = tmp_path.glob("edgec-bug-*.log")
    assert str(log) in done.err
    assert "Traceback" in log.read_text()
    value = edgec("targets", "--json").json["error"]
    assert (value["code"], value["exit_code"]) == ("InternalError", EXIT_BUG)
    assert "Traceback" in edgec("targets", "-v").err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), EXIT_INTERRUPTED),
        (MemoryError(), 1),
        (RecursionError(), EXIT_BUG),
        (EdgecError("what", where="a.py:3", hint="do", log="l.log"), 1),
    ],
)
def test_whatever_a_verb_raises_has_an_exit_code(
    edgec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _replace_targets(monkeypatch, error)
    done = edgec("targets", "--json")
    assert done.code == code
    assert done.json["error"]["exit_code"] == code


def test_all_parts_of_an_error_are_shown(edgec, monkeypatch: pytest.MonkeyPatch) -> None:
    _replace_targets(monkeypatch, EdgecError("what\x1b[2J", where="a.py:3", hint="do", log="l.log"))
    err = edgec("targets").err
    assert err == "error: what\\x1b[2J\n  at:   a.py:3\n  next: do\n  log:  l.log\n"


def test_what_prints_while_a_verb_works_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def verb(session: Session) -> Report:
        """Print."""
        print("from python")
        os.write(1, b"from C\n")
        session.note("a note")
        return Report(data={"x": [float("nan"), Path("p")]}, blocks=("answer",))

    monkeypatch.setitem(app.VERBS, "targets", verb)
    code = execute(["targets", "--json"])
    said = capfd.readouterr()
    assert code == 0
    assert json.loads(said.out) == {
        "schema": 1,
        "verb": "targets",
        "x": ["nan", "p"],
        "notes": ["a note"],
    }
    assert "from python" in said.err
    assert "from C" in said.err


def test_quiet_leaves_only_errors_on_stderr(edgec, monkeypatch: pytest.MonkeyPatch) -> None:
    def verb(session: Session) -> Report:
        """Say things."""
        session.say("said")
        session.note("noted")
        session.detail("detailed")
        return Report(data={}, blocks=("answer",))

    monkeypatch.setitem(app.VERBS, "targets", verb)
    assert edgec("targets").err == "said\nnote: noted\n"
    assert edgec("targets", "-q").err == ""
    assert edgec("-q", "targets").err == ""
    assert edgec("targets", "-v").err == "said\nnote: noted\ndetailed\n"
    assert edgec("-v", "targets").out == "answer\n"


def test_json_may_stand_before_the_verb(edgec) -> None:
    assert edgec("--json", "targets", "web").json["verb"] == "targets"
    assert edgec("--json").json["error"]["code"] == "UsageError"


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([COMMAND, "targets", "--json"], stdout=writing, stderr=-1, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (EXIT_BROKEN_PIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [COMMAND, "targets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 4
    assert done.stderr == "error: cannot write the output: No space left on device\n"


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_ctrl_c_ends_it_with_130_and_without_a_traceback(tmp_path: Path) -> None:
    model = tmp_path / "slow.py"
    model.write_text(
        "import pathlib, time\npathlib.Path('started').touch()\ntime.sleep(60)\ndef f(): ...\n"
    )
    child = subprocess.Popen(
        [COMMAND, "export", "slow.py:f"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # A job in a shell's background ignores the signal, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        _wait_for(tmp_path / "started")
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == EXIT_INTERRUPTED
    assert "Traceback" not in err
    assert err.endswith("error: interrupted\n")


_ENDLESS = """
import sys
from pathlib import Path
from edgec.cli.main import main
from edgec.toolchain.compiling import command_lines
command_lines.compiler_path = lambda: Path("compiler").absolute()
main()
"""


@pytest.mark.parametrize("name", EXITS)
def test_a_signal_ends_the_compiler_and_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    """With a compiler that never ends; it says which process it is."""
    scratch, pid = tmp_path / "tmp", tmp_path / "pid"
    scratch.mkdir()
    _endless_compiler(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, "compile", "one.mlir", "-o", "one.vmfb"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "EDGEC_CACHE_DIR": str(tmp_path / "cache")},
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),
    )
    try:
        _wait_for(pid)
        child.send_signal(getattr(signal, name))
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == EXITS[name]
    assert err.endswith(f"error: ended by {name}\n")
    assert list(scratch.iterdir()) == []
    assert sorted(p.name for p in tmp_path.glob("*.vmfb")) == []
    _wait_for_end(int(pid.read_text()))


_EARLY = """
import os, signal, subprocess
class Early(subprocess.Popen):
    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        if str(words[0][0]).endswith("compiler"):
            while not os.path.exists("pid"):
                pass
            os.kill(os.getpid(), signal.SIGTERM)
subprocess.Popen = Early
"""


def test_a_signal_while_the_compiler_starts_ends_it_too(tmp_path: Path) -> None:
    """At the one moment when it runs, and nothing here has its name yet."""
    _endless_compiler(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _EARLY + _ENDLESS, "compile", "one.mlir", "-o", "one.vmfb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "EDGEC_CACHE_DIR": str(tmp_path / "cache")},
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
        timeout=120,
    )
    assert done.returncode == EXITS["SIGTERM"]
    assert done.stderr.endswith("error: ended by SIGTERM\n")
    _wait_for_end(int((tmp_path / "pid").read_text()))


def _endless_compiler(folder: Path) -> None:
    (folder / "compiler").write_text("#!/bin/sh\necho $$ > new\nmv new pid\nexec sleep 60\n")
    (folder / "compiler").chmod(0o755)
    (folder / "one.mlir").write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )


def _wait_for_end(process: int) -> None:
    """What was killed is there until the process that adopted it has looked."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{process} still runs")


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgec.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "edgec 0.1.0\n"
