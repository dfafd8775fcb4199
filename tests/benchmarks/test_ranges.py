"""What the page of functions over all of f32 calls off."""

import numpy as np

from benchmarks.operators.ranges import numbers, off, page


def test_what_is_off_is_counted_and_shown() -> None:
    x = np.array([1, 2, 4, 8], np.float32)
    right = np.array([1, np.inf, np.nan, 8], np.float64)
    assert off(x, right.astype(np.float32), right) is None
    assert off(x, right.astype(np.float32) * np.float32(1 + 1e-5), right) is None
    found = off(x, np.array([1, 3, 0, 9], np.float32), right)
    assert found is not None
    assert found.count == 3
    assert found.number == 4
    assert found.given == 0
    assert np.isnan(found.right)


def test_an_answer_beyond_f32_is_infinite() -> None:
    x = np.array([3e38], np.float32)
    assert off(x, np.array([np.inf], np.float32), x.astype(np.float64) * 10) is None


def test_numbers_are_of_every_magnitude() -> None:
    x = numbers(900)
    sizes = np.abs(x[np.isfinite(x) & (x != 0)])
    assert sizes.min() < 1e-37
    assert sizes.max() > 1e37
    assert np.isnan(x).any()


def test_a_function_that_is_off_somewhere_has_a_row() -> None:
    x, zero = np.float32([2]), np.float32([0])
    wrong = off(x, zero, np.float64([1]))
    text = page(
        {"here": {"sin": wrong, "cos": None}, "there": {"sin": None, "cos": None}}, 1, ["a", "b"]
    )
    assert "| sin | 1: 2 gave 0, not 1 |  |" in text
    assert "Right everywhere: cos." in text
