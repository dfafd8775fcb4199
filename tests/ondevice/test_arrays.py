import contextlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgec.ondevice.arrays import read_results, write_inputs
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError
from edgec.runtime.signature import TensorSpec


def test_only_what_differs_between_calls_gets_rows(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    w = np.ones((2, 2), np.float32, order="F")
    files = write_inputs([(row, w) for row in x], tmp_path)
    assert list(files) == ["in0.npy", "in1.npy"]
    np.testing.assert_array_equal(np.load(files["in0.npy"]), x)
    np.testing.assert_array_equal(np.load(files["in1.npy"]), w)


def test_calls_that_do_not_differ_are_still_so_many(tmp_path: Path) -> None:
    x, w = np.ones(2, np.int32), np.zeros((), np.int64)
    files = write_inputs([(x, w)] * 4, tmp_path)
    assert np.load(files["in0.npy"]).shape == (4, 2)
    assert np.load(files["in1.npy"]).shape == ()


def test_results_have_the_types_of_the_signature(tmp_path: Path) -> None:
    brains = np.array([1.5, -3], ml_dtypes.bfloat16)
    np.savez(tmp_path / "out.npz", a=brains.astype(np.float32), b=np.array([-1], np.int8))
    specs = [
        TensorSpec(name="same", shape=(2,), dtype=DType.BF16),
        TensorSpec(name="same", shape=(1,), dtype=DType.U8),
    ]
    ((first, second),) = read_results(tmp_path / "out.npz", specs, 1, "it")
    assert first.dtype == brains.dtype
    assert first.tobytes() == brains.tobytes()
    np.testing.assert_array_equal(second, np.array([255], np.uint8))


def test_results_of_several_calls_are_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "out.npz", a=np.arange(6, dtype=np.float32).reshape(3, 2))
    specs = [TensorSpec(name="a", shape=(2,), dtype=DType.F32)]
    results = read_results(tmp_path / "out.npz", specs, 3, "it")
    assert [[array.tolist() for array in row] for row in results] == [[[0, 1]], [[2, 3]], [[4, 5]]]
    with pytest.raises(DeviceError, match="results of 4 calls"):
        read_results(tmp_path / "out.npz", specs, 4, "it")


def test_damaged_or_foreign_results_are_refused(tmp_path: Path) -> None:
    specs = [TensorSpec(name="a", shape=(2,), dtype=DType.F32)]
    path = tmp_path / "out.npz"
    np.savez(path, a=np.zeros(2, np.float32))
    whole = path.read_bytes()
    for size in range(0, len(whole), 17):
        path.write_bytes(whole[:size])
        with pytest.raises(DeviceError, match="it gave back is damaged"):
            read_results(path, specs, 1, "it")
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        with contextlib.suppress(DeviceError):  # a byte that nobody reads may be another
            ((array,),) = read_results(path, specs, 1, "it")
            np.testing.assert_array_equal(array, np.zeros(2, np.float32))
    for arrays in ({}, {"a": np.zeros(2), "b": np.zeros(2)}, {"a": np.zeros(2, np.int32)}):
        np.savez(path, **arrays)
        with pytest.raises(DeviceError, match="it gave back"):
            read_results(path, specs, 1, "it")
