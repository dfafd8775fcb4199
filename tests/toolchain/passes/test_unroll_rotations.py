"""Short loops around constants are written out, and run."""

from pathlib import Path

import numpy as np

from edgec import runtime, toolchain
from edgec.toolchain.passes.simplify.unroll_rotations import UnrollRotations
from tests.toolchain.passes.before_after import rewrite


def rotation(turns: int, first: str = "dense<[1, 2, 3]>") -> str:
    return f"""
func.func @main(%x: tensor<3xi32>) -> tensor<3xi32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %turns = stablehlo.constant dense<{turns}> : tensor<i32>
  %a = stablehlo.constant {first} : tensor<3xi32>
  %b = stablehlo.constant dense<[5, 7, 9]> : tensor<3xi32>
  %0:4 = stablehlo.while(%n = %zero, %v = %x, %p = %a, %q = %b)
      : tensor<i32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
    cond {{
      %1 = stablehlo.compare LT, %n, %turns, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }} do {{
      %1 = stablehlo.add %n, %one : tensor<i32>
      %2 = stablehlo.multiply %v, %p : tensor<3xi32>
      stablehlo.return %1, %2, %q, %p : tensor<i32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
    }}
  return %0#1 : tensor<3xi32>
}}"""


def test_three_turns_are_three_products() -> None:
    count, after = rewrite(UnrollRotations(), rotation(3))
    assert count == 1
    assert "stablehlo.while" not in after
    assert after.count("stablehlo.multiply") == 3


def test_long_loops_stay() -> None:
    assert rewrite(UnrollRotations(), rotation(9))[0] == 0


def test_the_constants_change_places(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(rotation(3))
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    x = np.array([1, -2, 3], np.int32)
    with runtime.load(module) as loaded:
        actual = loaded.main(x)
    np.testing.assert_array_equal(actual, x * [1, 2, 3] * [5, 7, 9] * [1, 2, 3])
