"""Differences are found where they are, and NaN and infinity are treated as answers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgec.runtime import Golden, GoldenCall, Tolerance, check_golden, compare, load
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, UsageError

INF, NAN = float("inf"), float("nan")


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_arrays_are_equal() -> None:
    for array in (f32(1, NAN, INF, -INF), np.arange(4), np.array([True]), np.array(2j), f32()):
        result = compare(array, array)
        assert result.ok
        assert (result.max_abs, result.max_rel, result.wrong) == (0, 0, 0)


def test_the_worst_element_is_named() -> None:
    expected = np.zeros((2, 3), np.float32)
    actual = expected.copy()
    actual[0, 1], actual[1, 2] = 0.5, -2
    result = compare(actual, expected, Tolerance(absolute=1e-3))
    assert not result.ok
    assert result.worst == (1, 2)
    assert (result.actual, result.expected) == (-2, 0)
    assert result.max_abs == 2
    assert (result.wrong, result.count) == (2, 6)
    assert "2 of 6 values are off; the worst at [1, 2] is -2.0 and should be 0.0" in result.problem


def test_the_tolerance_is_numpys() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        expected = random.standard_normal(5)
        actual = expected + random.standard_normal(5) * 10.0 ** random.integers(-6, 0)
        absolute, relative = 10.0 ** random.integers(-6, 0, 2)
        result = compare(actual, expected, Tolerance(absolute=absolute, relative=relative))
        assert result.ok == np.allclose(actual, expected, rtol=relative, atol=absolute)
        np.testing.assert_allclose(result.max_abs, np.abs(actual - expected).max())
        np.testing.assert_allclose(
            result.max_rel, (np.abs(actual - expected) / np.abs(expected)).max()
        )


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(NAN, 1), (1, NAN), (INF, 1), (1, INF), (INF, -INF), (NAN, INF)],
)
def test_what_is_not_finite_on_one_side_is_wrong(actual: float, expected: float) -> None:
    result = compare(f32(0, actual, 5), f32(0, expected, 5), Tolerance(absolute=1e30))
    assert not result.ok
    assert result.worst == (1,)
    assert result.max_abs == 0
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_too_small_to_be_normal_may_be_zero(kind: type) -> None:
    normal = np.finfo(kind).tiny
    tiny = np.array([normal / 2, -normal / 64], kind)
    assert tiny.all()
    assert compare(np.zeros_like(tiny), tiny).ok
    assert not compare(np.array([4 * normal, 0], kind), tiny).ok
    assert not compare(np.zeros(2, kind), np.array([16 * normal, normal], kind)).ok


def test_shapes_must_be_equal() -> None:
    result = compare(np.zeros((2, 3)), np.zeros((3, 2)))
    assert not result.ok
    assert "(2, 3) and should be (3, 2)" in result.problem
    json.dumps(result.to_json(), allow_nan=False)


def test_integers_are_exact_and_do_not_wrap() -> None:
    assert compare(np.array([2**63 - 1]), np.array([2**63 - 1])).ok
    assert not compare(np.array([2**63 - 1]), np.array([2**63 - 2])).ok
    assert compare(np.array([-(2**63)]), np.array([2**63 - 1])).max_abs == 2.0**64 - 1
    assert compare(np.array([-1]), np.array([2**64 - 1])).max_abs == 2.0**64
    result = compare(np.array([0], np.uint8), np.array([255], np.uint8))
    assert result.max_abs == 255
    assert not compare(np.array([True]), np.array([False])).ok


def test_defaults_follow_the_element_type() -> None:
    one = np.ones(1)
    for dtype, small, large in (
        (np.float32, 1e-5, 1e-3),
        (np.float16, 1e-3, 1e-1),
        (ml_dtypes.bfloat16, 2e-2, 0.5),
    ):
        expected = one.astype(dtype)
        assert compare((one + small).astype(dtype), expected).ok
        assert not compare((one + large).astype(dtype), expected).ok
    assert Tolerance.of(DType.I32) == Tolerance()


def test_small_answers_are_not_right_for_being_small() -> None:
    random = np.random.default_rng(3)
    scores = random.standard_normal(1000)
    softmax = (np.exp(scores) / np.exp(scores).sum()).astype(np.float32)
    assert compare(softmax * np.float32(1 + 1e-6), softmax).ok
    assert not compare(softmax * np.float32(1.1), softmax).ok
    tiny = (1e-10 * scores).astype(np.float32)
    assert compare(tiny * np.float32(1 + 1e-5), tiny).ok
    assert not compare(np.zeros_like(tiny), tiny).ok
    huge = (1e8 * scores).astype(np.float32)
    assert compare(huge * np.float32(1 + 1e-5), huge).ok


def test_many_small_differences_are_a_large_one() -> None:
    expected = np.random.default_rng(4).standard_normal(4096).astype(np.float32)
    off = expected + np.float32(3e-4)
    assert np.abs(off - expected).max() < 5e-4
    result = compare(off, expected)
    assert not result.ok
    assert "root mean square" in result.problem
    one = expected.copy()
    one[7] += 3e-4
    assert compare(one, expected).ok


def test_an_output_of_one_value_has_a_spread_too() -> None:
    assert compare(f32(2.00005), f32(2)).ok
    assert not compare(f32(2.001), f32(2)).ok
    assert compare(f32(1e-6), f32(0)).ok
    assert not compare(f32(1e-3), f32(0)).ok


def test_complex_numbers_are_compared_by_distance() -> None:
    result = compare(np.array([3 + 4j]), np.array([0j]), Tolerance(absolute=4))
    assert not result.ok
    assert result.max_abs == 5
    json.dumps(result.to_json(), allow_nan=False)


def test_a_tolerance_is_not_negative() -> None:
    for bad in (-1.0, NAN):
        with pytest.raises(UsageError, match="negative"):
            Tolerance(absolute=bad)


def golden(*last: float) -> Golden:
    x = f32(0, 1, 2, 3)
    call = GoldenCall(signature="step", inputs=(x,), outputs=(1 + x, np.array(1, np.int32)))
    again = GoldenCall(signature="step", inputs=(x,), outputs=(f32(*last), np.array(2, np.int32)))
    return Golden(calls=(call, again))


def test_golden_calls_run_in_order_on_fresh_state(stateful_module: Callable[..., Path]) -> None:
    path = stateful_module()
    result = check_golden(path, golden(1, 3, 5, 7))
    assert result.ok
    assert result.max_abs == 0
    with load(path) as module:
        module.step(f32(9, 9, 9, 9))
        assert check_golden(module, golden(1, 3, 5, 7)).ok
        assert module.state()["counter"] == 0


def test_a_wrong_answer_is_found(stateful_module: Callable[..., Path]) -> None:
    result = check_golden(stateful_module(), golden(1, 3, 5, 7.5))
    assert not result.ok
    assert result.max_abs == 0.5
    assert result.worst is not None
    function, name, output = result.worst
    assert (function, name, output.worst) == ("step", "memory", (3,))
    json.dumps(result.to_json(), allow_nan=False)


def test_an_answer_may_be_off_by_what_it_says(stateful_module: Callable[..., Path]) -> None:
    first, second = golden(1, 3, 5, 7.5).calls
    for bound, ok in ((0.6, True), (0.4, False)):
        calls = (first, replace(second, within=(bound, 0.0)))
        assert check_golden(stateful_module(), Golden(calls=calls)).ok is ok


def test_answers_of_another_program_are_refused(mixed_module: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="call step, which"):
        check_golden(mixed_module(), golden(1, 3, 5, 7))
