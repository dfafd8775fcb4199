"""Golden answers survive the disk; damaged files are refused; writes are whole or not at all."""

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, ProgramError
from edgec.runtime.files import write_atomically
from edgec.runtime.golden import Golden, GoldenCall

RNG = np.random.default_rng(0)


def sample(dtype: DType) -> np.ndarray:
    return (RNG.normal(size=(2, 3)) * 5).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_and_shape_survives(tmp_path: Path, dtype: DType) -> None:
    inputs = (sample(dtype), np.zeros((0, 4), dtype.numpy), np.array(1).astype(dtype.numpy))
    call = GoldenCall(signature="main", inputs=inputs, outputs=(sample(dtype),))
    Golden(calls=(call, call)).save(tmp_path / "a.golden.npz")
    back = Golden.load(tmp_path / "a.golden.npz")
    assert [c.signature for c in back.calls] == ["main", "main"]
    for kept, given in zip(back.calls[1].inputs, inputs, strict=True):
        assert kept.dtype == given.dtype
        assert kept.shape == given.shape
        assert kept.tobytes() == given.tobytes()


def test_what_an_answer_may_be_off_survives(tmp_path: Path) -> None:
    value = (np.zeros(3, np.float32),)
    calls = [
        GoldenCall(signature="main", inputs=value, outputs=value, within=bounds)
        for bounds in ((), (0.25,))
    ]
    Golden(calls=tuple(calls)).save(tmp_path / "a.golden.npz")
    assert [c.within for c in Golden.load(tmp_path / "a.golden.npz").calls] == [(), (0.25,)]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.golden.npz"
    values = (RNG.normal(size=40).astype(ml_dtypes.bfloat16),)
    Golden(calls=(GoldenCall(signature="main", inputs=values, outputs=values),)).save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 64):
        path.write_bytes(whole[:size])
        with pytest.raises(ProgramError):
            Golden.load(path)
    with pytest.raises(FileError):
        Golden.load(tmp_path / "none.npz")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), write_atomically(path) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    disk = os.open(full, os.O_WRONLY)
    with pytest.raises(FileError, match="cannot write"), write_atomically(tmp_path / "x"):
        os.write(disk, b"1")
    os.close(disk)
    assert not list(tmp_path.iterdir())
