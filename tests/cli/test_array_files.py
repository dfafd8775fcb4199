import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib import format as npy

from edgec.cli.array_files import Check, read_npy, read_npz, read_raw
from edgec.cli.input_spec import TypedShape
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import EdgecError, FileError, InputError


def anything(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Accept it."""


def every(keys: tuple[str, ...]) -> dict[str, Check]:
    return dict.fromkeys(keys, anything)


def header(shape: str, descr: str = "<f4") -> bytes:
    """A `.npy` file that ends after its header."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    array=hnp.arrays(
        dtype=st.sampled_from(["?", "<i1", "<u2", ">i4", "<i8", "<f2", ">f4", "<f8", "<c8"]),
        shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ),
    fortran=st.booleans(),
)
def test_arrays_come_back_as_they_were_written(
    tmp_path: Path, array: np.ndarray, fortran: bool
) -> None:
    array = np.asfortranarray(array) if fortran and array.ndim else array
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", first=array, second=array)
    for back in (
        read_npy(tmp_path / "a.npy", anything),
        *read_npz(tmp_path / "a.npz", every).values(),
    ):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_bfloat16_comes_back_as_numpy_writes_it(tmp_path: Path) -> None:
    array = np.array([1.5, -2.0, np.inf], ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", array)
    back = read_npy(tmp_path / "a.npy", anything)
    assert DType.of(back.dtype) is DType.BF16
    np.testing.assert_array_equal(back, array)


class Bomb:
    """Unpickling it would make a file."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("pwned", "w"))


def test_pickles_are_refused_and_not_run(tmp_path: Path) -> None:
    array = np.array([Bomb()], dtype=object)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "a.npz", array, allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))
    for read in (
        lambda: read_npy(tmp_path / "a.npy", anything),
        lambda: read_npz(tmp_path / "a.npz", every),
        lambda: read_npy(tmp_path / "b.npy", anything),
    ):
        with pytest.raises(InputError):
            read()
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x09\x00" + b"\0" * 100,
        b"PK\x03\x04" + b"\0" * 50,
        b"hello",
        header("(3,)"),
        header("(-3,)"),
        header("(1, 'x')"),
        header("(3,)", "nonsense"),
        header("(3,)", "|O"),
        header("(" * 3000),
        header("(999999999999, 999999999999)"),
    ],
)
def test_damaged_files_are_refused_without_taking_memory(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            read_npy(path, anything)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    archive = tmp_path / "a.npz"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("a.npy", data)
    with pytest.raises(InputError):
        read_npz(archive, every)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_files_with_damaged_bytes_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.arange(12.0).reshape(3, 4))
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "a.npz"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        read_npz(path, every)
    except EdgecError as error:
        assert str(path) in error.what or "a.npz" in error.what


def test_a_header_is_checked_before_the_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((2, 3), np.int16))
    seen = []

    def refuse(name: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        seen.append((name, shape, dtype))
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        read_npy(path, refuse)
    assert seen == [("a.npy", (2, 3), np.dtype(np.int16))]


def test_missing_files_and_folders_are_file_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none.npy", tmp_path):
        with pytest.raises(FileError):
            read_npy(path, anything)
        with pytest.raises(FileError):
            read_npz(path, every)
        with pytest.raises(FileError):
            read_raw(path, TypedShape(shape=(1,), dtype=DType.F32))


def test_raw_bytes_must_be_exactly_as_many_as_the_type_takes(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(np.arange(6, dtype="<i4").tobytes())
    back = read_raw(path, TypedShape(shape=(2, 3), dtype=DType.I32))
    np.testing.assert_array_equal(back, np.arange(6).reshape(2, 3))
    for shape in ((5,), (7,), ()):
        with pytest.raises(InputError, match="holds 24 bytes"):
            read_raw(path, TypedShape(shape=shape, dtype=DType.I32))


def test_a_version_two_header_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as stream:
        npy.write_array(stream, np.arange(3), version=(2, 0))
    np.testing.assert_array_equal(read_npy(path, anything), np.arange(3))
