from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgec.cli.results import check_results_path, result_json, result_text, save_results
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, UsageError
from edgec.runtime.signature import TensorSpec


def spec(name: str, array: np.ndarray) -> TensorSpec:
    return TensorSpec(name=name, shape=array.shape, dtype=DType.of(array.dtype))


@pytest.mark.parametrize("name", ["file", "params.w[0]", "a/b", "../up"])
def test_archives_hold_the_outputs_under_any_name(tmp_path: Path, name: str) -> None:
    arrays = [np.arange(6.0).reshape(2, 3), np.array(True)]
    path = tmp_path / "out.npz"
    save_results(path, [spec(name, arrays[0]), spec("ok", arrays[1])], arrays)
    with np.load(path, allow_pickle=False) as archive:
        assert archive.files == [name, "ok"]
        np.testing.assert_array_equal(archive[name], arrays[0])
        assert archive["ok"].dtype == np.bool_
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]


def test_bfloat16_is_written_as_floats_that_hold_it_exactly(tmp_path: Path) -> None:
    array = np.array([1.0078125, -3e38], ml_dtypes.bfloat16)
    save_results(tmp_path / "a.npy", [spec("a", array)], [array])
    back = np.load(tmp_path / "a.npy", allow_pickle=False)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back.astype(ml_dtypes.bfloat16), array)


def test_other_endings_and_two_arrays_in_one_npy_are_refused_before_work() -> None:
    check_results_path(Path("a.npz"), 2)
    check_results_path(Path("a.npy"), 1)
    for path, count in ((Path("a.npy"), 2), (Path("a.txt"), 1), (Path("a"), 1)):
        with pytest.raises(UsageError):
            check_results_path(path, count)


def test_a_folder_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    array = np.zeros(1)
    with pytest.raises(FileError):
        save_results(tmp_path / "none" / "a.npz", [spec("a", array)], [array])


def test_text_names_type_and_shape_and_abridges() -> None:
    small = np.array([[1, 2]], np.int8)
    assert result_text(spec("n", small), small) == "n: i8[1, 2] = [[1, 2]]"
    large = np.zeros((1000, 1000), ml_dtypes.bfloat16)
    text = result_text(spec("m", large), large)
    assert text.startswith("m: bf16[1000, 1000] =\n")
    assert "..." in text
    assert len(text) < 1000


def test_json_has_the_values_only_where_they_are_few() -> None:
    small = np.array([1.5, np.nan], np.float16)
    value = result_json(spec("x", small), small)
    assert value["dtype"] == "f16"
    assert value["values"][0] == 1.5
    assert "values" not in result_json(spec("x", np.zeros(65)), np.zeros(65))
    pair = np.array([1 + 2j], np.complex64)
    assert result_json(spec("z", pair), pair)["values"] == [[1.0, 2.0]]
    nothing = np.zeros((0, 3), np.float32)
    assert result_json(spec("x", nothing), nothing)["values"] == []
