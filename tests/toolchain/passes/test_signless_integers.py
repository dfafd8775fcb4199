"""Unsigned integers become bits inside a program, and stay unsigned at its surface."""

from pathlib import Path

import numpy as np

from edgec.toolchain.passes.legalise.signless_integers import SignlessIntegers
from tests.toolchain.passes.before_after import rewrite, run

JOINED = """
func.func @main(%x: tensor<4xui32>, %y: tensor<3xui32>) -> tensor<7xui32> {
  %c = stablehlo.constant dense<[4000000000, 1, 2, 3]> : tensor<4xui32>
  %0 = stablehlo.maximum %x, %c : tensor<4xui32>
  %1 = stablehlo.concatenate %0, %y, dim = 0 : (tensor<4xui32>, tensor<3xui32>) -> tensor<7xui32>
  %2 = func.call @halved(%1) : (tensor<7xui32>) -> tensor<7xui32>
  return %2 : tensor<7xui32>
}
func.func private @halved(%x: tensor<7xui32>) -> tensor<7xui32> {
  %c = stablehlo.constant dense<2> : tensor<7xui32>
  %0 = stablehlo.divide %x, %c : tensor<7xui32>
  return %0 : tensor<7xui32>
}"""

PRODUCT = """
func.func @main(%x: tensor<8xui8>, %y: tensor<8xi8>) -> tensor<i32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
    : (tensor<8xui8>, tensor<8xi8>) -> tensor<i32>
  return %0 : tensor<i32>
}"""

WINDOW = """
func.func @main(%x: tensor<6xui8>) -> tensor<6xui8> {
  %c = stablehlo.constant dense<0> : tensor<ui8>
  %0 = "stablehlo.reduce_window"(%x, %c) <{window_dimensions = array<i64: 6>,
      padding = dense<[[5, 0]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):
      %1 = stablehlo.maximum %a, %b : tensor<ui8>
      stablehlo.return %1 : tensor<ui8>
    }) : (tensor<6xui8>, tensor<ui8>) -> tensor<6xui8>
  return %0 : tensor<6xui8>
}"""


def test_moves_see_bits_and_order_sees_unsigned_numbers() -> None:
    count, after = rewrite(SignlessIntegers(), JOINED)
    assert count > 0
    assert "@main(%arg0: tensor<4xui32>, %arg1: tensor<3xui32>) -> tensor<7xui32>" in after
    assert "(tensor<4xi32>, tensor<3xi32>) -> tensor<7xi32>" in after
    assert "private @halved(%arg0: tensor<7xi32>) -> tensor<7xi32>" in after
    assert "stablehlo.maximum" in after and ": tensor<4xui32>" in after
    assert "dense<[-294967296, 1, 2, 3]> : tensor<4xi32>" in after


def test_products_widen_unsigned_bytes_first() -> None:
    _, after = rewrite(SignlessIntegers(), PRODUCT)
    assert "stablehlo.convert %1 : (tensor<8xui8>) -> tensor<8xi32>" in after
    assert "(tensor<8xi32>, tensor<8xi32>) -> tensor<i32>" in after


def test_signed_programs_are_left_alone() -> None:
    count, _ = rewrite(
        SignlessIntegers(),
        """
    func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
      %0 = stablehlo.add %x, %x : tensor<4xi32>
      return %0 : tensor<4xi32>
    }""",
    )
    assert count == 0


def test_the_answers_are_those_of_unsigned_numbers(tmp_path: Path) -> None:
    x, y = np.array([5, 2**32 - 1, 0, 7], np.uint32), np.array([2**31, 9, 1], np.uint32)
    largest = np.maximum(x, np.array([4000000000, 1, 2, 3], np.uint32))
    expected = np.concatenate([largest, y]) // 2
    actual = run(JOINED, tmp_path, x, y)
    assert actual.dtype == np.uint32
    np.testing.assert_array_equal(actual, expected)


def test_a_product_of_unsigned_and_signed_bytes(tmp_path: Path) -> None:
    x = np.arange(200, 208, dtype=np.uint8)
    y = np.arange(-4, 4, dtype=np.int8)
    assert run(PRODUCT, tmp_path, x, y) == x.astype(np.int32) @ y.astype(np.int32)


def test_a_running_maximum_of_unsigned_bytes(tmp_path: Path) -> None:
    x = np.array([3, 130, 7, 255, 0, 128], np.uint8)
    np.testing.assert_array_equal(run(WINDOW, tmp_path, x), np.maximum.accumulate(x))
