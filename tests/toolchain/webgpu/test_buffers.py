"""Buffers that a kernel sees in several types, and elements that are parts of words."""

from collections.abc import Callable

import numpy as np

from benchmarks.web.chromium import Page
from tests.toolchain.webgpu.page import run_spirv, shader

_RANDOM = np.random.default_rng(7)
_SMALL_TYPES = """
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
"""


def test_one_buffer_is_read_as_floats_in_fours_and_as_integers(
    page: Page, spirv: Callable[..., bytes]
) -> None:
    kernel = spirv(
        """
        layout(local_size_x = 16) in;
        layout(binding = 0) readonly buffer Fours { vec4 fours[]; };
        layout(binding = 0) readonly buffer Whole { int whole[]; };
        layout(binding = 1) buffer Out { float target[]; };
        layout(binding = 1) buffer Pairs { ivec2 pairs[]; };
        void main() {
          uint i = gl_LocalInvocationIndex;
          target[i] = dot(fours[i], vec4(1.0, 2.0, 3.0, 4.0)) + fours[i].y;
          pairs[i + 8] = ivec2(whole[i], -whole[i * 4]);
        }
        """
    )
    assert "array<vec4<u32>>" in shader(kernel).text
    given = _RANDOM.normal(size=(16, 4)).astype(np.float32)
    _, found = run_spirv(page, kernel, [given, np.zeros(48, np.int32)])
    words = given.view(np.int32).reshape(-1)
    floats = found.view(np.float32)[:16]
    np.testing.assert_allclose(floats, given @ [1, 2, 3, 4] + given[:, 1], rtol=1e-5)
    np.testing.assert_array_equal(found[16:].reshape(16, 2), np.stack([words[:16], -words[::4]], 1))


def test_neighbours_write_bytes_and_shorts_of_one_word(
    page: Page, spirv: Callable[..., bytes]
) -> None:
    kernel = spirv(
        f"""{_SMALL_TYPES}
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer Bytes {{ int8_t small[]; }};
        layout(binding = 1) readonly buffer Shorts {{ uint16_t middle[]; }};
        layout(binding = 2) buffer Out {{ int8_t sums[]; }};
        layout(binding = 3) buffer More {{ int16_t products[]; }};
        void main() {{
          uint i = gl_GlobalInvocationID.x;
          sums[i] = small[i] + int8_t(middle[i]);
          products[i] = int16_t(small[i]) * int16_t(3);
        }}
        """
    )
    small = _RANDOM.integers(-128, 128, 128).astype(np.int8)
    middle = _RANDOM.integers(0, 65536, 128).astype(np.uint16)
    empty = [np.zeros(128, np.int8), np.zeros(128, np.int16)]
    _, _, sums, products = run_spirv(page, kernel, [small, middle, *empty], (2, 1, 1))
    np.testing.assert_array_equal(sums, small + middle.astype(np.int8))
    np.testing.assert_array_equal(products, small.astype(np.int16) * 3)


def test_halves_are_read_and_written_and_rounded(page: Page, spirv: Callable[..., bytes]) -> None:
    kernel = spirv(
        f"""{_SMALL_TYPES}
        layout(local_size_x = 32) in;
        layout(binding = 0) readonly buffer Halves {{ float16_t halves[]; }};
        layout(binding = 0) readonly buffer Fours {{ f16vec4 fours[]; }};
        layout(binding = 1) buffer Out {{ float16_t one[]; }};
        layout(binding = 2) buffer More {{ f16vec4 four[]; }};
        void main() {{
          uint i = gl_LocalInvocationIndex;
          one[i] = float16_t(float(halves[i]) * 1.7);
          if (i < 8) four[i] = fours[i].wzyx + f16vec4(1.0);
        }}
        """
    )
    given = _RANDOM.normal(size=32).astype(np.float16)
    empty = [np.zeros(32, np.float16), np.zeros(32, np.float16)]
    _, one, four = run_spirv(page, kernel, [given, *empty])
    np.testing.assert_allclose(one, given.astype(np.float32) * np.float32(1.7), rtol=1e-3)
    turned = given.reshape(8, 4)[:, ::-1].reshape(-1)
    np.testing.assert_allclose(four, turned + np.float16(1), rtol=1e-3, atol=1e-3)


def test_numbers_are_given_at_the_call_and_shared_by_a_workgroup(
    page: Page, spirv: Callable[..., bytes]
) -> None:
    kernel = spirv(
        """
        layout(local_size_x = 64) in;
        layout(push_constant) uniform Numbers { int first; float scale; int most; };
        layout(binding = 0) buffer Data { float data[]; };
        shared vec4 tile[16];
        void main() {
          uint i = gl_LocalInvocationIndex;
          tile[i / 4][i % 4] = data[gl_GlobalInvocationID.x + first];
          barrier();
          float total = 0.0;
          for (int k = 0; k < most; k++) total += tile[(i + k) % 16].z * scale;
          barrier();
          data[gl_GlobalInvocationID.x + first] = total;
        }
        """
    )
    data = _RANDOM.normal(size=132).astype(np.float32)
    words = [4, int(np.array([2.5], np.float32).view(np.int32)[0]), 3]
    (found,) = run_spirv(page, kernel, [data], (2, 1, 1), words)
    tiles = data[4:].reshape(2, 16, 4)[:, :, 2] * 2.5
    places = (np.arange(64)[:, None] + np.arange(3)) % 16
    np.testing.assert_allclose(found[4:].reshape(2, 64), tiles[:, places].sum(2), rtol=1e-5)
    np.testing.assert_array_equal(found[:4], data[:4])


def test_sums_of_many_workgroups_meet_in_one_place(page: Page, spirv: Callable[..., bytes]) -> None:
    kernel = spirv(
        """
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer Data { uint data[]; };
        layout(binding = 1) buffer Total { uint total[]; };
        void main() { atomicAdd(total[gl_WorkGroupID.x % 2], data[gl_GlobalInvocationID.x]); }
        """
    )
    data = _RANDOM.integers(0, 2**32, 256).astype(np.uint32)
    _, total = run_spirv(page, kernel, [data, np.zeros(4, np.uint32)], (4, 1, 1))
    sums = data.reshape(4, 64).sum(1, dtype=np.uint32)
    np.testing.assert_array_equal(total, [sums[0] + sums[2], sums[1] + sums[3], 0, 0])
