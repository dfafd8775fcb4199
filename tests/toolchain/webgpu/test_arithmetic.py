"""Operations of SPIR-V as expressions of WGSL, beside NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.web.chromium import Page
from tests.toolchain.webgpu.page import run_spirv

_HEAD = """
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { %(type)s a[]; };
layout(binding = 1) readonly buffer B { %(type)s b[]; };
layout(binding = 2) writeonly buffer C { %(type)s c[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  %(type)s x = a[i], y = b[i], z;
  %(code)s
  c[i] = z;
}
"""
_RANDOM = np.random.default_rng(5)
_WORDS = _RANDOM.integers(-(2**31), 2**31, (2, 64)).astype(np.int32)
_SMALL = _RANDOM.integers(-50, 50, (2, 64)).astype(np.int32)
_FLOATS = _RANDOM.normal(size=(2, 64)).astype(np.float32) * 3


def _mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y != 0, np.mod(x, np.where(y == 0, 1, y)), 0)


def _high(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x.astype(np.int64) * y.astype(np.int64)) >> 32).astype(np.int32)


def _high_u(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = x.view(np.uint32).astype(np.uint64) * y.view(np.uint32).astype(np.uint64)
    return (wide >> np.uint64(32)).astype(np.uint32).view(np.int32)


def _vectors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    lanes = 2 * np.stack([x * y, x, y], 1)
    lanes[np.arange(64), np.arange(64) % 3] = 1
    return lanes @ [1, 2, 3]


@pytest.mark.parametrize(
    ("code", "given", "meaning"),
    [
        ("z = x * y + (x << 3) - (y >> 5);", _WORDS, lambda x, y: x * y + (x << 3) - (y >> 5)),
        ("z = x < y ? ~x : x ^ y;", _WORDS, lambda x, y: np.where(x < y, ~x, x ^ y)),
        ("z = y == 0 ? 0 : x % y;", _SMALL, _mod),
        (
            "z = int(uint(x) >> 7) + int(uint(x) > uint(y));",
            _WORDS,
            lambda x, y: (x.view("u4") >> 7).view("i4") + (x.view("u4") > y.view("u4")),
        ),
        ("int low; imulExtended(x, y, z, low);", _WORDS, _high),
        ("uint h, low; umulExtended(uint(x), uint(y), h, low); z = int(h);", _WORDS, _high_u),
        (
            "uint carry; uint s = uaddCarry(uint(x), uint(y), carry); z = int(s ^ carry << 31);",
            _WORDS,
            lambda x, y: (
                (x.view("u4") + y.view("u4"))
                ^ ((x.view("u4").astype("u8") + y.view("u4")) >> np.uint64(32)).astype("u4") << 31
            ).view("i4"),
        ),
        (
            "z = bitCount(x) + findMSB(uint(y)) + bitfieldExtract(x, 3, 7);",
            _WORDS,
            lambda x, y: np.array(
                [
                    int(p).bit_count() + int(q).bit_length() - 1 + (((int(p) >> 3) & 127) ^ 64) - 64
                    for p, q in zip(x.view("u4"), y.view("u4"), strict=True)
                ]
            ),
        ),
        (
            "z = clamp(x, -y, abs(y)) + sign(x);",
            _SMALL.__abs__(),
            lambda x, y: np.minimum(x, y) + np.sign(x),
        ),
    ],
    ids=["wrap", "select", "mod", "unsigned", "high", "high-u", "carry", "bits", "clamp"],
)
def test_integers_are_those_of_numpy(
    page: Page, spirv: Callable[..., bytes], code: str, given: np.ndarray, meaning
) -> None:
    x, y = np.ascontiguousarray(given)
    _, _, found = run_spirv(page, spirv(_HEAD % {"type": "int", "code": code}), [x, y, 0 * x])
    np.testing.assert_array_equal(found, meaning(x, y))


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("z = x * y - x / (abs(y) + 1.0);", lambda x, y: x * y - x / (abs(y) + 1)),
        (
            "z = exp(x) + log(abs(y)) + sqrt(abs(x));",
            lambda x, y: np.exp(x) + np.log(abs(y)) + abs(x) ** 0.5,
        ),
        (
            "z = floor(x) + ceil(y) + trunc(x) + roundEven(y);",
            lambda x, y: np.floor(x) + np.ceil(y) + np.trunc(x) + np.round(y),
        ),
        (
            "z = tanh(x * 60.0) + sin(y) + atan(x, y);",
            lambda x, y: np.tanh(x * 60) + np.sin(y) + np.arctan2(x, y),
        ),
        (
            "z = min(x, y) + fma(x, y, 2.5) + mod(x, 0.75);",
            lambda x, y: np.minimum(x, y) + x * y + 2.5 + np.mod(x, np.float32(0.75)),
        ),
        (
            "z = float(int(x * 9.0)) + float(uint(abs(y)));",
            lambda x, y: np.trunc(x * 9) + np.trunc(abs(y)),
        ),
        (
            "vec3 v = vec3(x, y, x * y); v = v.zxy * 2.0; v[i % 3] = 1.0;"
            " z = dot(v, vec3(1.0, 2.0, 3.0));",
            _vectors,
        ),
    ],
    ids=["sums", "exponentials", "rounding", "angles", "least", "conversions", "vectors"],
)
def test_floats_are_those_of_numpy(
    page: Page, spirv: Callable[..., bytes], code: str, meaning
) -> None:
    x, y = _FLOATS
    _, _, found = run_spirv(page, spirv(_HEAD % {"type": "float", "code": code}), [x, y, 0 * x])
    # Angles and their like may be off by 2^-11 in WebGPU; the compiler expands its own.
    tolerance = 5e-4 if "sin" in code else 1e-5
    np.testing.assert_allclose(found, meaning(x, y), rtol=tolerance, atol=tolerance)


def test_what_is_no_number_is_known(page: Page, spirv: Callable[..., bytes]) -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5] + [2.0] * 58, np.float32)
    code = (
        "z = (isnan(x) ? 1.0 : 0.0) + (isinf(x) ? 2.0 : 0.0) + (x != x ? 4.0 : 0.0)"
        " + (x == y ? 8.0 : 0.0) + (x > 1.0 / 0.0 ? 16.0 : 0.0) + (x < y ? 32.0 : 0.0);"
    )
    _, _, found = run_spirv(
        page, spirv(_HEAD % {"type": "float", "code": code}), [odd, odd, 0 * np.ones_like(odd)]
    )
    wanted = np.isnan(odd) * 5 + np.isinf(odd) * 2 + (odd == odd) * 8
    np.testing.assert_array_equal(found, wanted)
