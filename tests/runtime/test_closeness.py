import math

import numpy as np
import pytest

from edgec.runtime.closeness import closeness


def test_equal_arrays_have_no_noise() -> None:
    found = closeness(np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32))
    assert (found.relative_l2, found.cosine) == (0, 1)
    assert found.signal_to_noise == math.inf


def test_statistics_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    expected = rng.standard_normal((3, 50)).astype(np.float32)
    actual = expected + rng.standard_normal((3, 50)).astype(np.float32) * 0.01
    found = closeness(actual, expected)
    a, e = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    relative = np.linalg.norm(a - e) / np.linalg.norm(e)
    assert found.relative_l2 == pytest.approx(relative)
    assert found.cosine == pytest.approx(a @ e / np.linalg.norm(a) / np.linalg.norm(e))
    assert found.signal_to_noise == pytest.approx(-20 * math.log10(relative))


def test_a_wrong_sign_points_the_other_way() -> None:
    one = np.array([1.0, -2.0, 3.0])
    assert closeness(-one, one).cosine == pytest.approx(-1)
    assert closeness(-one, one).relative_l2 == pytest.approx(2)


def test_only_what_is_finite_in_both_counts() -> None:
    found = closeness(np.array([1.0, np.nan, 2.0]), np.array([1.0, 5.0, np.inf]))
    assert found.relative_l2 == 0


def test_nothing_where_something_should_be() -> None:
    found = closeness(np.zeros(3), np.ones(3))
    assert (found.relative_l2, found.cosine, found.signal_to_noise) == (1, 0, 0)
    assert closeness(np.ones(3), np.zeros(3)).relative_l2 == math.inf


def test_large_numbers_do_not_overflow() -> None:
    large = np.full(4, 1e300)
    assert closeness(large * 1.5, large).relative_l2 == pytest.approx(0.5)
