"""Golden calls in a module: inputs from seeds, and what tells a wrong answer from rounding."""

import json

import numpy as np
import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ModuleError
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_calls import SeededCalls
from edgec.runtime.seeded_input import SeededInput, hashed, lanes
from edgec.runtime.tolerance import Tolerance
from tests.runtime.hostile_golden import damaged_calls, some_calls

RANDOM = np.random.default_rng(5)
USUAL = Tolerance.of(DType.F32)


def test_hashes_are_those_of_the_definition() -> None:
    """Computed by hand from SPEC.md's three lines, in Python's whole numbers."""

    def slowly(seed: int, position: int) -> int:
        x = (position * 0x9E3779B9 + seed) % 2**32
        x = ((x ^ x >> 16) * 0x7FEB352D) % 2**32
        x = ((x ^ x >> 15) * 0x846CA68B) % 2**32
        return x ^ x >> 16

    found = hashed(7, np.arange(1000, dtype=np.uint64)).tolist()
    assert found == [slowly(7, position) for position in range(1000)]
    assert len(set(found)) == 1000
    assert 0.48 < np.mean(found) / 2**32 < 0.52


@pytest.mark.parametrize("dtype", list(DType), ids=lambda dtype: dtype.value)
def test_inputs_are_like_their_example(dtype: DType) -> None:
    values = RANDOM.normal(3, 2, (50, 40))
    example = (values > 3 if dtype is DType.BOOL else np.abs(values)).astype(dtype.numpy)
    made = SeededInput.like(example, seed=3)
    array = made.array()
    assert array.dtype == example.dtype
    assert array.shape == example.shape
    part = lanes(dtype).numpy
    wide, like = (np.asarray(a).view(part).astype(np.float64) for a in (array, example))
    assert like.min() <= wide.min() <= wide.max() <= like.max()
    if dtype.is_float:
        assert abs(wide.mean() - like.mean()) < 0.5 * like.std()
    assert len(np.unique(array)) > 1
    assert SeededInput.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64])
def test_floats_are_exact_so_that_nothing_rounds(dtype: DType) -> None:
    example = RANDOM.normal(100, 0.01, 300).astype(dtype.numpy)
    made = SeededInput.like(example, seed=9)
    assert made.seed is None or made.seed == 9
    numbers = made.array().astype(np.float64) / 2.0**made.exponent
    assert np.array_equal(numbers, np.round(numbers))


@pytest.mark.parametrize(
    "example",
    [
        np.tile(np.arange(7), (3, 1)),
        np.full((2, 3), 41, np.int32),
        np.float32(3.7),
        np.array([], np.float32),
        np.full(3, np.inf, np.float32),
        np.array(5, np.uint64) + (1 << 63),
    ],
)
def test_positions_and_constants_stay_what_they_are(example: np.ndarray) -> None:
    example = np.asarray(example)
    array = SeededInput.like(example, seed=1).array()
    if example.size and example.dtype.kind == "f" and not np.isfinite(example).all():
        assert not array.any()
    elif example.dtype == np.uint64:
        assert array == 1 << 52  # the largest that every language has
    else:
        assert np.array_equal(array, example)


def test_a_mask_keeps_its_two_values() -> None:
    least = np.finfo(np.float32).min
    array = SeededInput.like(np.where(RANDOM.random(90) < 0.5, 0, least).astype("f4"), 1).array()
    assert set(array.tolist()) == {0.0, float(least)}


@pytest.mark.parametrize("size", [1, 7, 16, 1000, 100_000])
def test_rounding_is_let_through_and_one_wrong_number_is_not(size: int) -> None:
    expected = RANDOM.standard_normal(size).astype(np.float32)
    known = SampledOutput.of(expected, USUAL, seed=2)
    assert known.judge(expected).share < 1e-6
    near = expected + (5e-5 * RANDOM.standard_normal(size)).astype(np.float32)
    assert not known.judge(near).problem
    assert 0 < known.judge(near).share < 1
    for wrong in (2.0, np.nan, np.inf):
        for at in {0, size // 2, size - 1}:
            bad = expected.copy()
            bad[at] += np.float32(wrong)
            assert known.judge(bad).problem, (wrong, at)


def test_a_problem_says_where_and_by_how_much() -> None:
    known = SampledOutput.of(np.arange(4, dtype=np.float32), USUAL)
    bad = np.array([0, 1, 2.5, 3], np.float32)
    assert known.judge(bad).problem == (
        "1 of 4 samples are off; the worst, number 2 is 2.5 and should be 2"
    )
    assert "(4, 1)" not in known.judge(bad).problem
    assert "float32[4, 1]" in known.judge(bad[:, None]).problem


def test_a_shift_of_all_numbers_is_seen() -> None:
    expected = RANDOM.standard_normal(100_000).astype(np.float32)
    known = SampledOutput.of(expected, USUAL)
    assert known.judge(expected * np.float32(1.01)).problem


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
def test_whole_numbers_are_compared_one_by_one(dtype: str) -> None:
    if dtype == "?":
        expected = RANDOM.random(5000) < 0.5
    else:
        info = np.iinfo(dtype)
        expected = RANDOM.integers(info.min, info.max, 5000, dtype=dtype, endpoint=True)
    known = SampledOutput.of(expected, Tolerance())
    assert not known.judge(expected).problem
    bad = expected.copy()
    bad[4321] = not bad[4321] if dtype == "?" else bad[4321] ^ bad.dtype.type(1)
    assert known.judge(bad).problem


def test_ties_are_not_looked_at() -> None:
    expected = np.arange(40)
    open_ = expected % 2 == 0
    known = SampledOutput.of(expected, Tolerance(), open_=open_)
    assert not known.judge(np.where(open_, 999, expected)).problem
    assert known.judge(np.where(open_, expected, 999)).problem


def test_how_far_answers_are_settled_is_allowed() -> None:
    expected = RANDOM.standard_normal(50).astype(np.float32)
    near = expected + np.float32(0.01)
    assert SampledOutput.of(expected, USUAL).judge(near).problem
    assert not SampledOutput.of(expected, USUAL, within=0.05).judge(near).problem


def test_the_text_reads_back() -> None:
    calls = some_calls()
    assert SeededCalls.read(calls.text()) == calls
    assert len(calls.text()) < 2000


@pytest.mark.parametrize("name, text", damaged_calls(), ids=[n for n, _ in damaged_calls()])
def test_hostile_texts_are_refused(name: str, text: str) -> None:
    with pytest.raises(ModuleError):
        SeededCalls.read(text)
