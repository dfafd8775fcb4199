"""Files are written whole, through links, and never in the place of a device."""

import os
import threading
from pathlib import Path

import pytest

from edgec.runtime.errors import FileError
from edgec.runtime.files import descriptor_of, write_atomically


def _write(path: Path, data: bytes) -> None:
    with write_atomically(path) as stream:
        stream.write(data)


def test_a_link_is_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "far" / "real", tmp_path / "link"
    real.parent.mkdir()
    link.symlink_to(real)
    for data in (b"new", b"newer"):  # a link to nothing yet, and to a file
        _write(link, data)
        assert link.is_symlink()
        assert real.read_bytes() == data
    assert [file.name for file in real.parent.iterdir()] == ["real"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["far", "link"]


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        _write(path, b"anything")
        assert Path("/dev/null").is_char_device()


def test_a_pipe_takes_the_bytes_as_they_come(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    _write(pipe, b"bytes")
    reader.join(10)
    assert got == [b"bytes"]
    assert pipe.is_fifo()


def test_what_an_open_pipe_is_called_by_takes_the_bytes_too(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"/dev/fd/{theirs}")
    for path in (Path(f"/dev/fd/{theirs}"), link):  # as /dev/stdout is, before a pipe
        _write(path, b"bytes")
        assert os.read(ours, 10) == b"bytes"
    os.close(ours)
    os.close(theirs)


def test_bytes_go_behind_those_of_an_open_file_that_is_named_by_its_number(tmp_path: Path) -> None:
    log, link = tmp_path / "log", tmp_path / "link"
    with log.open("wb", buffering=0) as stream:
        link.symlink_to(f"/proc/self/fd/{stream.fileno()}")
        stream.write(b"begun ")
        for path in (Path(f"/dev/fd/{stream.fileno()}"), link):
            _write(path, b"bytes ")
        stream.write(b"done")
    assert log.read_bytes() == b"begun bytes bytes done"


def test_the_standard_streams_have_their_numbers(tmp_path: Path) -> None:
    assert descriptor_of(Path("/dev/stdout")) == 1
    assert descriptor_of(Path("/dev/stderr")) == 2
    (tmp_path / "link").symlink_to("/dev/stdout")
    assert descriptor_of(tmp_path / "link") == 1
    assert descriptor_of(Path("/dev/null")) is None
    assert descriptor_of(tmp_path / "no.such") is None


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileError, match="cannot write"):
        _write(tmp_path / "loop", b"bytes")


def test_a_full_device_is_said(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(FileError, match="No space left"):
        _write(Path("/dev/full"), b"bytes")


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        _write(tmp_path, b"bytes")
    assert tmp_path.is_dir()
