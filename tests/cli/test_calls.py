import numpy as np
import pytest

from edgec.cli.calls import input_slots, join, output_slots, split
from edgec.cli.session import Session
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError
from edgec.runtime.signature import Dim, Signature, TensorSpec


def spec(name: str, *shape: int | Dim, dtype: DType = DType.F32) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype)


SIGNATURE = Signature.flat(
    "main",
    [spec("image", 1, 2, 2), spec("k", dtype=DType.I32)],
    [spec("scores", 1, 3), spec("loss"), spec("pair", 2)],
)
IMAGES = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
K = np.array([5, 6, 7], np.int32)


def test_one_call_takes_the_arrays_as_they_are() -> None:
    calls = split(Session(), SIGNATURE, {0: IMAGES[:1], 1: K[0]}, each=False)
    assert calls.rows is None
    assert len(calls.inputs) == 1
    np.testing.assert_array_equal(calls.inputs[0][0], IMAGES[:1])


def test_each_makes_a_call_a_row_and_repeats_what_fits_whole() -> None:
    calls = split(Session(), SIGNATURE, {0: IMAGES, 1: np.int32(5)}, each=True)
    assert calls.rows == 3
    for row, (image, k) in enumerate(calls.inputs):
        np.testing.assert_array_equal(image, IMAGES[row : row + 1])
        assert k == 5
    stacked = split(Session(), SIGNATURE, {0: IMAGES[:, None], 1: K}, each=True)
    assert [k.item() for _, k in stacked.inputs] == [5, 6, 7]
    np.testing.assert_array_equal(stacked.inputs[2][0], IMAGES[2:])


def test_rows_go_together_again_end_to_end_or_stacked() -> None:
    calls = split(Session(), SIGNATURE, {0: IMAGES, 1: K}, each=True)
    scores, loss, pair = SIGNATURE.outputs
    assert join(calls, scores, [np.zeros((1, 3))] * 3).shape == (3, 3)
    assert join(calls, loss, [np.float32(i) for i in range(3)]).tolist() == [0, 1, 2]
    assert join(calls, pair, [np.zeros(2)] * 3).shape == (3, 2)


def test_missing_inputs_and_uneven_rows_are_refused() -> None:
    with pytest.raises(InputError, match="main needs k too"):
        split(Session(), SIGNATURE, {0: IMAGES[:1]}, each=False)
    with pytest.raises(InputError, match="image 3, k 2"):
        split(Session(), SIGNATURE, {0: IMAGES, 1: K[:2]}, each=True)
    with pytest.raises(InputError, match="no rows"):
        split(Session(), SIGNATURE, {0: IMAGES[:0], 1: np.int32(1)}, each=True)


def test_one_name_with_two_sizes_is_refused() -> None:
    n = Dim(name="n", minimum=1)
    signature = Signature.flat("main", [spec("a", n), spec("b", n)], [])
    with pytest.raises(InputError, match="n is 2 in another argument"):
        split(Session(), signature, {0: np.zeros(2), 1: np.zeros(3)}, each=False)


def test_a_batch_for_a_model_of_one_is_told_of_each() -> None:
    accept = input_slots(SIGNATURE, each=False).accept
    assert "--each, 3 calls" in (accept(SIGNATURE.inputs[0], IMAGES.shape) or "")
    assert input_slots(SIGNATURE, each=True).accept(SIGNATURE.inputs[0], IMAGES.shape) is None


def test_expected_arrays_may_be_rows_or_labels_and_nothing_else() -> None:
    scores, loss, pair = SIGNATURE.outputs
    one = output_slots(SIGNATURE, rows=None).accept
    assert one(scores, (1, 3)) is None
    assert one(scores, (1,)) is None
    assert one(scores, (1, 1, 3)) is not None
    rows = output_slots(SIGNATURE, rows=3).accept
    assert rows(scores, (3, 3)) is None
    assert rows(loss, (3,)) is None
    assert rows(pair, (3, 2)) is None


def test_conversions_are_noted() -> None:
    session = Session(verbosity=-1)
    split(session, SIGNATURE, {0: IMAGES[:1].astype(np.float64), 1: np.int64(1)}, each=False)
    assert session.notes == [
        "image was converted from f64 to f32",
        "k was converted from i64 to i32",
    ]
