from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgec.runtime.errors import FileError, UsageError
from edgec.toolchain.weights_file import check_weights_path, write_weights

WEIGHTS = {
    "layer.scale": np.arange(3, dtype=np.float32),
    "layer.kernel": np.arange(64, dtype=np.float32).reshape(8, 8).T,
    "half": np.arange(4, dtype=ml_dtypes.bfloat16),
    "flags": np.array([True, False]),
    "empty": np.zeros((0, 3), np.int64),
    "scalar": np.array(7, np.uint8),
}


def test_safetensors_files_are_read_by_the_safetensors_package(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    path = tmp_path / "w.safetensors"
    write_weights(WEIGHTS, path)
    read = load_file(path)
    assert set(read) == set(WEIGHTS)
    for name, value in WEIGHTS.items():
        assert read[name].dtype == value.dtype, name
        assert read[name].shape == value.shape, name
        assert read[name].tobytes() == value.tobytes(), name


def test_large_tensors_lie_at_multiples_of_64_bytes(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_weights(WEIGHTS, path)
    data = path.read_bytes()
    assert data.index(WEIGHTS["layer.kernel"].tobytes()) % 64 == 0


@pytest.mark.parametrize("suffix", [".safetensors", ".irpa"])
def test_both_formats_are_read_by_irees_runtime(tmp_path: Path, suffix: str) -> None:
    from iree.runtime import ParameterIndex

    path = tmp_path / f"w{suffix}"
    write_weights({k: v for k, v in WEIGHTS.items() if v.size}, path)
    index = ParameterIndex()
    index.load(str(path))
    entries = dict(index.items())
    assert entries["layer.kernel"].length == 256
    assert entries["half"].length == 8
    assert "scalar" in entries


def test_an_unknown_suffix_is_refused() -> None:
    with pytest.raises(UsageError, match="is no weights file"):
        check_weights_path(Path("w.bin"))


@pytest.mark.parametrize("suffix", [".safetensors", ".irpa"])
def test_a_folder_that_is_not_there_is_one_error(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileError, match="cannot write"):
        write_weights(WEIGHTS, tmp_path / "missing" / f"w{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_an_element_type_that_safetensors_has_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="z is complex128") as caught:
        write_weights({"z": np.zeros(2, np.complex128)}, tmp_path / "w.safetensors")
    assert ".irpa" in str(caught.value)
