import subprocess
import time
from pathlib import Path

import pytest

from edgec.ondevice.scripts import close_script, folder_script, in_folder, read_end, to_its_end
from edgec.ondevice.transport import Answer


def run(script: str) -> Answer | None:
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    return read_end(Answer(code=done.returncode, out=done.stdout, err=done.stderr))


@pytest.mark.parametrize(
    ("script", "code", "out"),
    [("echo a", 0, "a\n"), ("printf a; exit 7", 7, "a"), ("no-such-program", 127, "")],
)
def test_exit_codes_come_back_in_the_text(script: str, code: int, out: str) -> None:
    answer = run(to_its_end(script))
    assert answer is not None
    assert (answer.code, answer.out) == (code, out)


@pytest.mark.parametrize("text", ["", "half of what it", "edgec-exit:", "edgec-exit:x"])
def test_a_script_that_was_cut_short_has_no_end(text: str) -> None:
    assert read_end(Answer(code=0, out=text, err="")) is None


def test_a_folder_is_made_used_and_removed_with_what_runs_in_it(tmp_path: Path) -> None:
    made = run(folder_script(str(tmp_path)))
    assert made is not None
    folder = Path(made.out.strip())
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    (folder / "run.sh").write_text("echo $$ > pid; exec sleep 60")
    script = in_folder(str(folder), "sh run.sh")
    sleeper = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        time.sleep(0.01)
    closed = run(close_script(str(folder)))
    assert closed is not None
    assert closed.code == 0
    out, _ = sleeper.communicate(timeout=30)
    assert out == "edgec-exit:143\n"
    assert list(tmp_path.iterdir()) == []
