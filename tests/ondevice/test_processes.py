from pathlib import Path

import pytest

from edgec.ondevice.processes import find_program, run_here
from edgec.runtime.errors import DeviceError, DeviceMissing


def test_a_command_reads_and_writes_texts_and_files(tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(bytes(range(256)))
    assert run_here(["cat"], given="a text").out == "a text"
    assert run_here(["cat"], given=source, into=sink).code == 0
    assert sink.read_bytes() == source.read_bytes()
    answer = run_here(["sh", "-c", "printf 'a\\r\\nb'; echo no >&2; exit 3"])
    assert (answer.code, answer.out, answer.err) == (3, "a\nb", "no\n")


def test_what_hangs_is_ended() -> None:
    with pytest.raises(DeviceError, match="sleep did not answer within 0 s"):
        run_here(["sleep", "60"], seconds=0.1)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceMissing, match="no such-program on the PATH") as caught:
        find_program("such-program", hint="make one")
    assert caught.value.hint == "make one"
    with pytest.raises(DeviceError, match="cannot start"):
        run_here([str(tmp_path / "none")])
