"""Rounded weights against what they were, group by group."""

import numpy as np
import pytest

from edgec.quantising.rounding import exact_scheme, round_weights
from edgec.quantising.scheme import Scheme

NORMAL = np.random.default_rng(0).standard_normal((24, 256)).astype(np.float32)
SCHEMES = ("int8", "int8-g32", "int4", "int4-g32", "int4-g64", "int4-g128")


def error(matrix: np.ndarray, scheme: str) -> float:
    found = round_weights(matrix, Scheme.parse(scheme))
    return float(np.square(found.floats() - matrix).mean() / np.square(matrix).mean())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_codes_scales_and_zero_mean_what_the_program_will_compute(scheme):
    found = round_weights(NORMAL, Scheme.parse(scheme))
    codes = found.codes.reshape(24, -1).astype(float)
    assert codes.min() >= (-128 if found.bits == 8 else 0)
    assert codes.max() <= (127 if found.bits == 8 else 15)
    each = found.inner // (found.scale.size // 24)
    scale = np.repeat(found.scale.reshape(24, -1).astype(float), each, axis=1)
    np.testing.assert_allclose(found.floats(), (codes - found.zero) * scale, 1e-6, 1e-7)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_no_worse_than_reaching_the_largest_weight(scheme):
    """The plain way: a group's largest weight has the largest code, all others the nearest."""
    parsed = Scheme.parse(scheme)
    groups = NORMAL.reshape(24, -1, parsed.group or 256)
    most = 2 ** (parsed.bits - 1) - 1
    step = np.abs(groups).max(-1, keepdims=True) / most
    plain = np.square(np.rint(groups / step) * step - groups).mean() / np.square(NORMAL).mean()
    assert error(NORMAL, scheme) < plain


def test_smaller_groups_and_more_bits_round_better():
    errors = [error(NORMAL, scheme) for scheme in ("int4", "int4-g128", "int4-g32", "int8")]
    assert errors == sorted(errors, reverse=True)


def test_weights_on_one_side_of_zero_get_least_values():
    one_sided = np.abs(NORMAL) + 3
    found = round_weights(one_sided, Scheme.parse("int4-g32"))
    assert found.least is not None
    assert found.zero == 0
    assert np.square(found.floats() - one_sided).mean() < 0.02
    assert round_weights(NORMAL, Scheme.parse("int4-g32")).least is None


def test_whole_steps_are_kept_exactly():
    codes = np.random.default_rng(1).integers(-7, 8, (8, 64))
    codes[:, ::32] = -8
    matrix = (codes * 0.125).astype(np.float32)
    assert np.array_equal(round_weights(matrix, Scheme.parse("int4-g32")).floats(), matrix)


def test_zeros_stay_zeros_and_tiny_weights_are_not_lost():
    zeros = np.zeros((4, 64), np.float32)
    assert not round_weights(zeros, Scheme.parse("int4-g32")).floats().any()
    tiny = NORMAL * np.float32(1e-9)
    found = round_weights(tiny, Scheme.parse("int8-g32"))
    assert found.scale.dtype == np.float32
    assert error(tiny, "int8-g32") == pytest.approx(error(NORMAL, "int8-g32"), rel=0.1)


@pytest.mark.parametrize("span", [2, 32])
def test_two_codes_share_a_byte_half_a_span_apart(span):
    found = round_weights(NORMAL, Scheme.parse("int4-g32"))
    packed = found.packed(span).view(np.uint8)
    codes = found.codes.reshape(24, -1, span)
    assert packed.shape == (24, 256 // span, span // 2)
    assert np.array_equal(packed & 15, codes[..., : span // 2])
    assert np.array_equal(packed >> 4, codes[..., span // 2 :])


def came_in_blocks(form: str) -> np.ndarray:
    """Weights as a GGUF file's blocks stand for them: ends are met, numbers are in f16."""
    rng = np.random.default_rng(3)
    low, high = {"Q4_0": (-8, 8), "Q4_1": (0, 16), "Q8_0": (-127, 128)}[form]
    codes = rng.integers(low, high, (24, 4, 32)).astype(np.float32)
    codes[..., 5], codes[..., 20] = low, high - 1
    scale = rng.uniform(-0.1, 0.1, (24, 4, 1)).astype(np.float16).astype(np.float32)
    if form != "Q4_0":
        scale = np.abs(scale)
    least = rng.uniform(-1, 0, (24, 4, 1)).astype(np.float16).astype(np.float32)
    return (codes * scale + (least if form == "Q4_1" else 0)).reshape(24, 128)


@pytest.mark.parametrize(
    ("form", "scheme"), [("Q4_0", "int4-g32"), ("Q4_1", "int4-g32"), ("Q8_0", "int8-g32")]
)
def test_what_came_in_blocks_goes_back_into_them(form, scheme):
    matrix = came_in_blocks(form)
    assert exact_scheme(matrix) == Scheme.parse(scheme)
    found = round_weights(matrix, Scheme.parse(scheme))
    assert found.scale.dtype == np.float16
    np.testing.assert_allclose(found.floats(), matrix, 0, 1e-6 * np.abs(matrix).max())


def test_what_did_not_is_not_forced_into_blocks():
    assert exact_scheme(NORMAL) is None
