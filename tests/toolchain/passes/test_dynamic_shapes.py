"""The pass on small literal modules: which operations are there before and after."""

import re
from collections import Counter

import pytest
from iree.compiler import ir

from edgec.runtime.errors import CompileError
from edgec.toolchain.passes.dynamic_shapes import DynamicShapes
from edgec.toolchain.stablehlo import parse_stablehlo


def rewrite(text: str) -> tuple[int, str, Counter[str]]:
    """How many rewrites were made, the module after, and how often each operation is in it."""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        count = DynamicShapes().run(module)
        assert module.operation.verify()
        after = str(module)
    return count, after, Counter(re.findall(r'"?\b([a-z_]+\.[a-z_]+)\b"?[ (]', after))


def test_a_static_module_is_left_untouched() -> None:
    text = """
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = call @inner(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }
    func.func private @inner(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
        : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    with ir.Context() as context:
        before = str(parse_stablehlo(text, context))
    count, after, _ = rewrite(text)
    assert count == 0
    assert after == before


def test_a_broadcast_reads_its_size_from_the_argument() -> None:
    count, after, ops = rewrite("""
    func.func @main(%x: tensor<?xf32>) -> tensor<?x8xf32> {
      %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %b1 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
      %c = stablehlo.constant dense<8> : tensor<1xi32>
      %s = stablehlo.concatenate %b1, %c, dim = 0
        : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0]
        : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x8xf32>
      return %0 : tensor<?x8xf32>
    }""")
    assert count == 1
    assert ops["stablehlo.dynamic_broadcast_in_dim"] == 0
    assert ops["linalg.generic"] == 1
    assert ops["tensor.extract"] == 0, "the shape must not be read back from the device"
    assert "tensor.dim %arg0, %c0" in after


@pytest.mark.parametrize(
    ("operand", "result", "shape", "expected"),
    [
        ("?x4x3", "?x12", "%b1, %c12", "tensor.collapse_shape"),
        ("?x12", "?x4x3", "%b1, %c4, %c3", "tensor.expand_shape"),
        ("?x4x3", "?x3x4", "%b1, %c3, %c4", "tensor.expand_shape"),
        ("?x4x3", "?x6", "%b2, %c6", "tensor.collapse_shape"),
    ],
)
def test_a_reshape_merges_or_splits_axes_where_sizes_tell_which(
    operand: str, result: str, shape: str, expected: str
) -> None:
    parts = shape.split(", ")
    count, _, ops = rewrite(f"""
    func.func @main(%x: tensor<{operand}xf32>) -> tensor<{result}xf32> {{
      %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<{operand}xf32>) -> tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %bb = stablehlo.multiply %b, %two : tensor<i32>
      %b1 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
      %b2 = stablehlo.reshape %bb : (tensor<i32>) -> tensor<1xi32>
      %c3 = stablehlo.constant dense<3> : tensor<1xi32>
      %c4 = stablehlo.constant dense<4> : tensor<1xi32>
      %c6 = stablehlo.constant dense<6> : tensor<1xi32>
      %c12 = stablehlo.constant dense<12> : tensor<1xi32>
      %s = stablehlo.concatenate {shape}, dim = 0
        : ({", ".join(["tensor<1xi32>"] * len(parts))}) -> tensor<{len(parts)}xi32>
      %0 = stablehlo.dynamic_reshape %x, %s
        : (tensor<{operand}xf32>, tensor<{len(parts)}xi32>) -> tensor<{result}xf32>
      return %0 : tensor<{result}xf32>
    }}""")
    assert count == 1
    assert ops["stablehlo.dynamic_reshape"] == 0
    assert ops[expected] == 1


def test_a_reshape_to_sizes_that_are_data_keeps_them_as_data() -> None:
    count, _, ops = rewrite("""
    func.func @main(%x: tensor<?x4xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_reshape %x, %s : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }""")
    assert count == 1
    assert ops["tensor.reshape"] == 1
    assert ops["tensor.extract"] == 2


def test_a_transform_on_dynamic_sizes_is_refused_with_its_place() -> None:
    with pytest.raises(CompileError, match=r"stablehlo\.fft on dynamic sizes") as error:
        rewrite("""
        func.func @main(%x: tensor<?x8xf32>) -> tensor<?x5xcomplex<f32>> {
          %0 = stablehlo.fft %x, type = RFFT, length = [8]
            : (tensor<?x8xf32>) -> tensor<?x5xcomplex<f32>> loc("rfft"("model.py":7:3))
          return %0 : tensor<?x5xcomplex<f32>>
        }""")
    assert error.value.where == "model.py:7 (rfft)"
    assert error.value.hint
