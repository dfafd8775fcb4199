"""Slices and paddings that begin between vectors are right on Vulkan; others stay as they are."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.passes.legalise.separate_slices import SeparateSlices
from tests.toolchain.passes.before_after import rewrite, run

FENCE = "iree_tensor_ext.compute_barrier.start"
SLICE = """
func.func @main(%x: tensor<{whole}x{kind}>) -> tensor<{part}x{kind}> {{
  %part = stablehlo.slice %x [{at}] : (tensor<{whole}x{kind}>) -> tensor<{part}x{kind}>
  %y = stablehlo.abs %part : tensor<{part}x{kind}>
  return %y : tensor<{part}x{kind}>
}}"""
PAD = """
func.func @main(%x: tensor<8x64xf32>) -> tensor<{result}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.abs %x : tensor<8x64xf32>
  %all = stablehlo.pad %y, %zero, low = [{low}], high = [{low}], interior = [0, 0]
    : (tensor<8x64xf32>, tensor<f32>) -> tensor<{result}xf32>
  return %all : tensor<{result}xf32>
}}"""
MOVING = """
func.func @main(%x: tensor<8x72xf32>, %i: tensor<i32>) -> tensor<8x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %part = stablehlo.dynamic_slice %x, %zero, %i, sizes = [8, 64]
    : (tensor<8x72xf32>, tensor<i32>, tensor<i32>) -> tensor<8x64xf32>
  %y = stablehlo.sine %part : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}"""
MULTIPLIED = """
func.func @main(%x: tensor<65x6xf32>, %w: tensor<2x8xf32>) -> tensor<64x8xf32> {
  %part = stablehlo.slice %x [1:65, 1:3] : (tensor<65x6xf32>) -> tensor<64x2xf32>
  %y = stablehlo.dot_general %part, %w, contracting_dims = [1] x [0]
    : (tensor<64x2xf32>, tensor<2x8xf32>) -> tensor<64x8xf32>
  return %y : tensor<64x8xf32>
}"""

PUT = """
func.func @main(%x: tensor<8x72xf32>, %y: tensor<8x64xf32>) -> tensor<8x72xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %at = stablehlo.constant dense<{at}> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<8x72xf32>
  %all = stablehlo.multiply %x, %half : tensor<8x72xf32>
  %part = stablehlo.sine %y : tensor<8x64xf32>
  %put = stablehlo.dynamic_update_slice %all, %part, %zero, %at
    : (tensor<8x72xf32>, tensor<8x64xf32>, tensor<i32>, tensor<i32>) -> tensor<8x72xf32>
  return %put : tensor<8x72xf32>
}}"""

JOINED = """
func.func @main(%x: tensor<3xf32>, %y: tensor<{size}xf32>) -> tensor<{all}xf32> {{
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.cosine %y : tensor<{size}xf32>
  %all = stablehlo.concatenate {order}, dim = 0
    : (tensor<{first}xf32>, tensor<{second}xf32>) -> tensor<{all}xf32>
  return %all : tensor<{all}xf32>
}}"""
BEHIND = JOINED.format(size=1024, all=1027, order="%a, %b", first=3, second=1024)
BEFORE = JOINED.format(size=1024, all=1027, order="%b, %a", first=1024, second=3)


def sliced(whole: str, at: str, part: str, kind: str = "f32") -> str:
    return SLICE.format(whole=whole, at=at, part=part, kind=kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sliced("8x72", "0:8, 2:66", "8x64"), 1),
        (sliced("8x72x6", "0:8, 1:65, 0:6", "8x64x6"), 1),
        (sliced("8x72", "0:8, 4:68", "8x64", "f16"), 1),
        (sliced("8x72", "0:8, 4:68", "8x64"), 0),
        (sliced("8x72", "0:8, 0:66", "8x66"), 0),
        (sliced("8x71", "0:8, 1:65", "8x64"), 0),
        (sliced("72x6", "1:65, 0:6", "64x6"), 0),
        (sliced("1x72x6", "0:1, 1:65, 0:6", "1x64x6"), 0),
        (PAD.format(low="2, 2", result="12x68"), 1),
        (PAD.format(low="2, 0", result="12x64"), 0),
        (PAD.format(low="0, 1", result="8x66"), 1),
        (MOVING, 1),
        (PUT.format(at=2), 1),
        (PUT.format(at=4), 0),
        (BEHIND, 1),
        (BEFORE, 0),
    ],
    ids=[
        "between vectors",
        "rows between vectors",
        "between vectors of eight",
        "a whole vector on",
        "from the first on",
        "rows that are no vectors",
        "whole rows",
        "whole rows of one",
        "padded",
        "padded with rows",
        "padded by one",
        "known in the call",
        "put between vectors",
        "put at a vector",
        "joined between vectors",
        "joined at a vector",
    ],
)
def test_only_what_begins_between_vectors_is_fenced(text: str, expected: int) -> None:
    count, after = rewrite(SeparateSlices(), text)
    assert count == expected
    assert after.count(FENCE) == expected


@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("text", "shape", "right"),
    [
        (sliced("8x72", "0:8, 2:66", "8x64"), (8, 72), lambda x: np.abs(x[:, 2:66])),
        (sliced("8x72x6", "0:8, 1:65, 0:6", "8x64x6"), (8, 72, 6), lambda x: np.abs(x[:, 1:65])),
        (PAD.format(low="2, 2", result="12x68"), (8, 64), lambda x: np.pad(np.abs(x), 2)),
    ],
    ids=["slice", "slice of rows", "pad"],
)
def test_it_is_right_on_vulkan(
    text: str,
    shape: tuple[int, ...],
    right: Callable[[np.ndarray], np.ndarray],
    tmp_path: Path,
) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(run(text, tmp_path, x, target="vulkan"), right(x))


@pytest.mark.vulkan
@pytest.mark.parametrize("start", range(4))
def test_a_start_that_only_the_call_knows_is_right_on_vulkan(start: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(8, 72)).astype(np.float32)
    answer = run(MOVING, tmp_path, x, np.array(start, np.int32), target="vulkan")
    np.testing.assert_allclose(answer, np.sin(x[:, start : start + 64]), atol=1e-6)


@pytest.mark.vulkan
def test_a_product_of_a_slice_is_right_on_vulkan(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, w = (random.normal(size=size).astype(np.float32) for size in ((65, 6), (2, 8)))
    answer = run(MULTIPLIED, tmp_path, x, w, target="vulkan")
    np.testing.assert_allclose(answer, x[1:, 1:3] @ w, atol=1e-5)


@pytest.mark.vulkan
def test_what_is_put_between_vectors_is_right_on_vulkan(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = (random.normal(size=size).astype(np.float32) for size in ((8, 72), (8, 64)))
    expected = x / 2
    expected[:, 2:66] = np.sin(y)
    answer = run(PUT.format(at=2), tmp_path, x, y, target="vulkan")
    np.testing.assert_allclose(answer, expected, atol=1e-6)


@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("text", "right"),
    [
        (BEHIND, lambda x, y: np.concatenate([np.sin(x), np.cos(y)])),
        (BEFORE, lambda x, y: np.concatenate([np.cos(y), np.sin(x)])),
    ],
    ids=["behind", "before"],
)
def test_what_is_joined_is_right_on_vulkan(
    text: str, right: Callable[[np.ndarray, np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    x, y = (random.normal(size=size).astype(np.float32) for size in (3, 1024))
    answer = run(text, tmp_path, x, y, target="vulkan")
    np.testing.assert_allclose(answer, right(x, y), atol=1e-6)


OWN = """
func.func @main(%x: tensor<7x{row}x{kind}>, %i: tensor<i32>) -> tensor<7x{row}x{kind}> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %all = stablehlo.negate %x : tensor<7x{row}x{kind}>
  %part = stablehlo.slice %all [3:4, 0:{row}] : (tensor<7x{row}x{kind}>) -> tensor<1x{row}x{kind}>
  %put = stablehlo.dynamic_update_slice %all, %part, %i, %zero
    : (tensor<7x{row}x{kind}>, tensor<1x{row}x{kind}>, tensor<i32>, tensor<i32>)
    -> tensor<7x{row}x{kind}>
  return %put : tensor<7x{row}x{kind}>
}}"""


@pytest.mark.parametrize(("row", "kind"), [(3, "i8"), (4, "i8"), (3, "i16"), (3, "f32")])
@pytest.mark.vulkan
def test_a_slice_that_is_put_into_its_own_array_is_right(
    row: int, kind: str, tmp_path: Path
) -> None:
    text = OWN.format(row=row, kind=kind)
    count, after = rewrite(SeparateSlices(), text)
    assert count == 1
    assert after.count(FENCE) == 1
    dtype = {"i8": np.int8, "i16": np.int16, "f32": np.float32}[kind]
    x = np.arange(7 * row).reshape(7, row).astype(dtype)
    expected = -x
    expected[5] = expected[3]
    actual = run(text, tmp_path, x, np.array(5, np.int32), target="vulkan")
    np.testing.assert_array_equal(actual, expected)
