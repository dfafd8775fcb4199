"""The pass on small literal modules: what changes, what stays, and when it keeps its hands off."""

import pytest
from iree.compiler import ir

from edgec.toolchain.passes.legalise.narrow_integers import NarrowIntegers
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.passes.before_after import rewrite


def body(text: str, name: str = "main") -> str:
    """The text of one function."""
    start = text.index(f"@{name}(")
    return text[start : text.index("\n  }", start)]


def test_the_signature_stays_and_the_arithmetic_narrows() -> None:
    count, after = rewrite(
        NarrowIntegers(wraps=True),
        """
    func.func @main(%x: tensor<4x8xi64>) -> tensor<4x8xi64> {
      %c = stablehlo.constant dense<3> : tensor<4x8xi64>
      %0 = stablehlo.multiply %x, %c : tensor<4x8xi64>
      return %0 : tensor<4x8xi64>
    }""",
    )
    assert count == 3
    assert "@main(%arg0: tensor<4x8xi64>) -> tensor<4x8xi64>" in after
    assert "stablehlo.constant dense<3> : tensor<4x8xi32>" in body(after)
    assert "stablehlo.multiply %0, %c : tensor<4x8xi32>" in body(after)
    assert "tensor<4x8xi64> -> tensor<4x8x2xi32>" in after, "low words of the argument"
    assert "arith.shrsi" in after, "the sign goes into the high words of the result"


def test_dynamic_sizes_are_read_from_the_argument() -> None:
    _, after = rewrite(
        NarrowIntegers(),
        """
    func.func @main(%x: tensor<?x8xi64>) -> tensor<?x8xi1> {
      %0 = stablehlo.compare GT, %x, %x : (tensor<?x8xi64>, tensor<?x8xi64>) -> tensor<?x8xi1>
      return %0 : tensor<?x8xi1>
    }""",
    )
    assert "tensor<?x8xi64>{%dim} -> tensor<?x8x2xi32>{%dim}" in after
    assert "(tensor<?x8xi32>, tensor<?x8xi32>) -> tensor<?x8xi1>" in body(after)


def test_the_extremes_that_start_a_maximum_become_those_of_32_bits() -> None:
    _, after = rewrite(
        NarrowIntegers(wraps=True),
        """
    func.func @main(%x: tensor<8xi64>) -> tensor<i64> {
      %c = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
      %0 = stablehlo.reduce(%x init: %c) applies stablehlo.maximum across dimensions = [0]
        : (tensor<8xi64>, tensor<i64>) -> tensor<i64>
      return %0 : tensor<i64>
    }""",
    )
    assert "dense<-2147483648> : tensor<i32>" in after
    assert "@main(%arg0: tensor<8xi64>) -> tensor<i64>" in after


def test_private_functions_narrow_wholly() -> None:
    _, after = rewrite(
        NarrowIntegers(wraps=True),
        """
    func.func @main(%x: tensor<8xi64>) -> tensor<8xi64> {
      %0 = call @twice(%x) : (tensor<8xi64>) -> tensor<8xi64>
      return %0 : tensor<8xi64>
    }
    func.func private @twice(%x: tensor<8xi64>) -> tensor<8xi64> {
      %0 = stablehlo.add %x, %x : tensor<8xi64>
      return %0 : tensor<8xi64>
    }""",
    )
    assert "@twice(%arg0: tensor<8xi32>) -> tensor<8xi32>" in after


def test_the_initial_state_keeps_its_type() -> None:
    _, after = rewrite(
        NarrowIntegers(),
        """
    func.func @main(%n: tensor<i64>) -> tensor<i64> {
      %0 = stablehlo.add %n, %n : tensor<i64>
      return %0 : tensor<i64>
    }
    func.func @edgec_initial_state() -> tensor<i64> {
      %c = stablehlo.constant dense<5> : tensor<i64>
      return %c : tensor<i64>
    }""",
    )
    assert "dense<5> : tensor<i64>" in after


@pytest.mark.parametrize(
    ("why", "text"),
    [
        (
            "a hash means its 64 bits",
            """func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
              %c = stablehlo.constant dense<6364136223846793005> : tensor<4xi64>
              %0 = stablehlo.multiply %x, %c : tensor<4xi64>
              return %0 : tensor<4xi64>
            }""",
        ),
        (
            "the bits are looked at",
            """func.func @main(%x: tensor<4xi64>) -> tensor<4x2xi32> {
              %0 = stablehlo.bitcast_convert %x : (tensor<4xi64>) -> tensor<4x2xi32>
              return %0 : tensor<4x2xi32>
            }""",
        ),
        (
            "a result is made of an argument",
            """func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
              %c = stablehlo.constant dense<3> : tensor<4xi64>
              %0 = stablehlo.multiply %x, %c : tensor<4xi64>
              return %0 : tensor<4xi64>
            }""",
        ),
        (
            "a result is made of an argument, in a loop and a function",
            """func.func @main(%x: tensor<i64>, %n: tensor<i32>) -> tensor<i64> {
              %c = stablehlo.constant dense<0> : tensor<i64>
              %0:2 = stablehlo.while(%i = %n, %s = %c) : tensor<i32>, tensor<i64>
                cond {
                  %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %1 : tensor<i1>
                } do {
                  %1 = func.call @more(%s, %x) : (tensor<i64>, tensor<i64>) -> tensor<i64>
                  stablehlo.return %i, %1 : tensor<i32>, tensor<i64>
                }
              return %0#1 : tensor<i64>
            }
            func.func private @more(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i64> {
              %0 = stablehlo.add %a, %b : tensor<i64>
              return %0 : tensor<i64>
            }""",
        ),
        (
            "there is nothing to narrow",
            """func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
              return %x : tensor<4xi32>
            }""",
        ),
    ],
)
def test_what_is_left_as_it_is(why: str, text: str) -> None:
    with ir.Context() as context:
        before = str(parse_stablehlo(text, context))
    assert rewrite(NarrowIntegers(), text) == (0, before), why


def test_a_result_that_counts_is_not_made_of_what_is_compared_and_looked_up() -> None:
    count, after = rewrite(
        NarrowIntegers(),
        """
    func.func @main(%ids: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xf32>) {
      %0 = stablehlo.iota dim = 0 : tensor<4xi64>
      %1 = stablehlo.convert %ids : (tensor<4xi64>) -> tensor<4xf32>
      %2 = stablehlo.compare GT, %ids, %0 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
      %3 = stablehlo.negate %0 : tensor<4xi64>
      %4 = stablehlo.select %2, %0, %3 : tensor<4xi1>, tensor<4xi64>
      return %4, %1 : tensor<4xi64>, tensor<4xf32>
    }""",
    )
    assert count > 0
    assert "stablehlo.select" in body(after) and "tensor<4xi1>, tensor<4xi32>" in body(after)
