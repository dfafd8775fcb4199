from typing import Any

import ml_dtypes
import numpy as np
import pytest

from edgec.cli.expected import Checked, check_outputs, failure, grid
from edgec.cli.session import Session
from edgec.runtime import GoldenCall
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import TensorSpec

SCORES = np.array([[1, 3, 2], [9, 0, 0], [0, 0, 1], [5, 4, 3]], np.float32)

GOLDEN = np.array([0.5, 0.25, 1], np.float32)


def checked(
    actual: np.ndarray, expected: np.ndarray, *, session: Session | None = None, **options: Any
) -> Checked:
    spec = TensorSpec(name="scores", shape=actual.shape, dtype=DType.of(actual.dtype))
    given = {"absolute": None, "relative": None, "share": 1.0} | options
    (one,) = check_outputs(session or Session(), [spec], [actual], {0: expected}, **given)
    return one


def test_values_within_the_tolerance_agree() -> None:
    assert checked(SCORES, SCORES + 1e-5).ok
    assert not checked(SCORES, SCORES + 1e-2).ok
    assert checked(SCORES, SCORES + 1e-2, absolute=0.1).ok
    assert not checked(SCORES, SCORES + 1e-2, relative=0.0).ok


def test_a_coarse_output_against_fine_answers_gets_the_coarse_tolerance() -> None:
    assert checked(SCORES.astype(ml_dtypes.bfloat16), SCORES.astype(np.float64) + 0.01).ok


def test_labels_are_compared_with_the_largest_score_and_that_is_said() -> None:
    session = Session(verbosity=-1)
    one = checked(SCORES, np.array([1, 0, 2, 0]), session=session)
    assert one.ok
    assert one.labels
    assert "taken as labels" in session.notes[0]
    assert one.to_json()["compared"] == "labels"


def test_a_label_whose_score_is_as_large_as_the_largest_is_right() -> None:
    scores = np.array([[2, 5, 5], [1, 0, 1.1]], np.float32)
    assert checked(scores, np.array([2, 2])).ok
    assert not checked(scores, np.array([2, 0])).ok
    assert not checked(scores, np.array([2, 9])).ok


def test_answers_of_a_golden_file_may_be_off_by_what_it_says() -> None:
    for answers, actual in (
        (GOLDEN, GOLDEN + 0.01),
        (np.array([3, 1, 2]), np.array([3, 2, 2])),
    ):
        call = GoldenCall(
            signature="main",
            inputs=(),
            outputs=(answers,),
            within=(0.02,) if answers.dtype.kind == "f" else (),
            open=() if answers.dtype.kind == "f" else (np.array([False, True, False]),),
        )
        assert not checked(actual, answers).ok
        assert checked(actual, answers, golden=call).ok
        assert not checked(actual + 1, answers, golden=call).ok


def test_every_label_must_agree_unless_a_share_is_enough() -> None:
    labels = np.array([1, 0, 2, 2])
    wrong = checked(SCORES, labels)
    assert not wrong.ok
    error = failure([wrong], "a.vmfb on vulkan")
    assert error is not None
    assert error.exit_code == 23
    assert error.what == "a.vmfb on vulkan gives a wrong scores: 3 of 4 labels agree"
    assert checked(SCORES, labels, share=0.75).ok
    assert not checked(SCORES, labels, share=0.76).ok
    with pytest.raises(UsageError):
        checked(SCORES, labels, share=1.5)


def test_labels_of_other_counts_and_floats_are_no_labels() -> None:
    for expected in (np.array([1, 0, 2]), np.array([1.0, 0.0, 2.0, 0.0])):
        one = checked(SCORES, expected)
        assert not one.labels
        assert not one.ok


def test_the_failure_names_the_worst_output() -> None:
    good, bad = checked(SCORES, SCORES), checked(SCORES, SCORES + np.eye(4, 3, dtype=np.float32))
    assert failure([good], "m") is None
    error = failure([good, bad], "m")
    assert error is not None
    assert "3 of 12 values are off" in error.what
    rows = grid([good, bad]).rows
    assert [row[-1] for row in rows] == ["ok", "WRONG"]
    assert rows[1][2] == "9/12"
