"""The pass on small literal modules: which operations are there before and after."""

import re
from collections import Counter

import pytest
from iree.compiler import ir

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import CompileError
from edgec.runtime.signature import Dim, Signature, TensorSpec
from edgec.toolchain.passes.legalise.dynamic_shapes import DynamicShapes
from edgec.toolchain.program import Function, Input, Output, ProgramInfo, Provenance
from edgec.toolchain.stablehlo import parse_stablehlo


def rewrite(text: str, info: ProgramInfo | None = None) -> tuple[int, str, Counter[str]]:
    """How many rewrites were made, the module after, and how often each operation is in it."""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        count = DynamicShapes(info=info).run(module)
        assert module.operation.verify()
        after = str(module)
    return count, after, Counter(re.findall(r'"?\b([a-z_]+(?:\.[a-z_]+)+)\b"?[ (]', after))


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


@pytest.mark.parametrize(("hides", "barriers"), [(True, 3), (False, 0)])
def test_batches_are_hidden_in_products_only_where_there_is_data_tiling(
    hides: bool, barriers: int
) -> None:
    text = """
    func.func @main(%r: tensor<2x2x?xf32>, %x: tensor<2x?x?xf32>, %c: tensor<?x3xf32>)
        -> tensor<2x2x3xf32> {
      %y = stablehlo.tanh %c : tensor<?x3xf32>
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [2] x [0]
        : (tensor<2x?x?xf32>, tensor<?x3xf32>) -> tensor<2x?x3xf32>
      %1 = stablehlo.dot_general %r, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<2x2x?xf32>, tensor<2x?x3xf32>) -> tensor<2x2x3xf32>
      return %1 : tensor<2x2x3xf32>
    }"""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert DynamicShapes(hides_batches=hides).run(module) == 2
        assert module.operation.verify()
        after = str(module)
    assert after.count("linalg.generic") == 2
    assert after.count("util.optimization_barrier") == barriers


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


def one_op(body: str, arguments: str, result: str) -> str:
    """A function of one operation on dynamic sizes; `%b1` and `%c2` are ready for shapes."""
    return f"""
    func.func @main({arguments}) -> {result} {{
      %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
      %b1 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
      %c0 = stablehlo.constant dense<0> : tensor<1xi32>
      %c1 = stablehlo.constant dense<1> : tensor<1xi32>
      %c2 = stablehlo.constant dense<2> : tensor<1xi32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %f0 = stablehlo.constant dense<0.0> : tensor<f32>
      {body}
      return %r : {result}
    }}"""


X = "tensor<?x?xf32>"
PAIR = "stablehlo.concatenate {}, {}, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>"
OPERATIONS = {
    "dynamic_iota": (
        f"%s = {PAIR.format('%b1', '%c2')} "
        "%r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x2xi32>",
        "tensor<?x2xi32>",
        {"linalg.generic": 1, "linalg.index": 1},
    ),
    "dynamic_pad": (
        f"%l = {PAIR.format('%b1', '%c0')} %z = {PAIR.format('%c0', '%c0')} "
        f"%r = stablehlo.dynamic_pad %x, %f0, %l, %z, %z : ({X}, tensor<f32>, tensor<2xi32>, "
        f"tensor<2xi32>, tensor<2xi32>) -> {X}",
        X,
        {"tensor.pad": 1},
    ),
    "real_dynamic_slice": (
        f"%l = {PAIR.format('%b1', '%c2')} %z = {PAIR.format('%c0', '%c0')} "
        f"%o = {PAIR.format('%c1', '%c1')} %r = stablehlo.real_dynamic_slice %x, %z, %l, %o : "
        f"({X}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> {X}",
        X,
        {"tensor.extract_slice": 1},
    ),
    "dynamic_update_slice": (
        "%u = stablehlo.constant dense<7.0> : tensor<1x1xf32> "
        f"%r = stablehlo.dynamic_update_slice %x, %u, %one, %one : ({X}, tensor<1x1xf32>, "
        f"tensor<i32>, tensor<i32>) -> {X}",
        X,
        {"tensor.insert_slice": 1},
    ),
    "concatenate": (
        f"%r = stablehlo.concatenate %x, %x, dim = 1 : ({X}, {X}) -> {X}",
        X,
        {"linalg.generic": 1, "arith.select": 1},
    ),
    "dot_general": (
        "%r = stablehlo.dot_general %x, %x, contracting_dims = [0, 1] x [0, 1] : "
        f"({X}, {X}) -> tensor<f32>",
        "tensor<f32>",
        {"linalg.generic": 1, "linalg.fill": 1, "arith.mulf": 1, "arith.addf": 1},
    ),
    "gather": (
        "%i = stablehlo.constant dense<[[0], [1], [1]]> : tensor<3x1xi32> "
        '%r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], "
        "index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : "
        f"({X}, tensor<3x1xi32>) -> tensor<1x3xf32>",
        "tensor<1x3xf32>",
        {"linalg.generic": 1, "tensor.extract": 1},
    ),
    "reduce_window": (
        '%r = "stablehlo.reduce_window"(%x, %f0) <{window_dimensions = array<i64: 1, 3>, '
        "padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({ ^bb0(%a: tensor<f32>, "
        "%c: tensor<f32>): %m = stablehlo.maximum %a, %c : tensor<f32> "
        "stablehlo.return %m : tensor<f32> }) : "
        f"({X}, tensor<f32>) -> {X}",
        X,
        {"tensor.pad": 1, "linalg.fill": 1, "arith.maximumf": 1},
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_on_dynamic_sizes_becomes_one_that_the_compiler_takes(name: str) -> None:
    body, result, expected = OPERATIONS[name]
    text = one_op(body, f"%x: {X}", result)
    assert f"stablehlo.{name}" in text
    count, _, ops = rewrite(text)
    assert count == 1
    assert ops[f"stablehlo.{name}"] == 0
    for op, times in expected.items():
        assert ops[op] == times, op


def test_a_running_sum_is_one_scan() -> None:
    count, after, ops = rewrite(f"""
    func.func @main(%x: {X}) -> {X} {{
      %f0 = stablehlo.constant dense<0.0> : tensor<f32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %s = stablehlo.get_dimension_size %x, dim = 1 : ({X}) -> tensor<i32>
      %t = stablehlo.subtract %s, %one : tensor<i32>
      %s1 = stablehlo.reshape %s : (tensor<i32>) -> tensor<1xi32>
      %t1 = stablehlo.reshape %t : (tensor<i32>) -> tensor<1xi32>
      %c0 = stablehlo.constant dense<0> : tensor<1xi32>
      %c1 = stablehlo.constant dense<1> : tensor<1xi32>
      %w = {PAIR.format("%c1", "%s1")}
      %o = {PAIR.format("%c1", "%c1")}
      %p = stablehlo.concatenate %c0, %c0, %t1, %c0, dim = 0
        : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
      %q = stablehlo.reshape %p : (tensor<4xi32>) -> tensor<2x2xi32>
      %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %f0, %w, %o, %o, %o, %q)
        {{called_computations = [@add]}} : ({X}, tensor<f32>, tensor<2xi32>, tensor<2xi32>,
        tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> {X}
      return %r : {X}
    }}
    func.func @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
      %0 = stablehlo.add %a, %b : tensor<f32>
      return %0 : tensor<f32>
    }}""")
    assert count == 1
    assert ops["iree_linalg_ext.scan"] == 1
    assert "@add" not in after, "the function that only the rewritten operation named is gone"


def test_a_broadcast_that_may_expand_is_looked_up_unless_jax_says_that_it_does_not() -> None:
    text = """
    module {} {{
      func.func @main(%x: tensor<?xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {{
        %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1]
          : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
        return %0 : tensor<?x?xf32>
      }}
    }}"""
    _, _, careful = rewrite(text.format(""))
    _, _, trusting = rewrite(text.format("attributes {jax.uses_shape_polymorphism = true}"))
    assert careful["arith.select"] == 1
    assert trusting["arith.select"] == 0


def test_a_counted_loop_reads_its_bound_from_outside_and_calls_are_inlined() -> None:
    _, after, ops = rewrite(f"""
    func.func @main(%x: {X}) -> {X} {{
      %0 = stablehlo.constant dense<0> : tensor<i32>
      %s = stablehlo.get_dimension_size %x, dim = 1 : ({X}) -> tensor<i32>
      %r:3 = stablehlo.while(%i = %0, %n = %s, %c = %x) : tensor<i32>, tensor<i32>, {X}
      cond {{
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %d = func.call @twice(%c) : ({X}) -> {X}
        stablehlo.return %j, %n, %d : tensor<i32>, tensor<i32>, {X}
      }}
      return %r#2 : {X}
    }}
    func.func private @twice(%x: {X}) -> {X} {{
      %0 = stablehlo.add %x, %x : {X}
      return %0 : {X}
    }}""")
    assert re.search(r"compare +LT, %iterArg, %\d+", after)
    assert ops["func.call"] == 0
    assert "%iterArg_" in after


def test_sizes_that_must_agree_are_checked_and_bounded() -> None:
    _, after, ops = rewrite("""
    module attributes {jax.uses_shape_polymorphism = true} {
      func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
        %a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %b = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %p = stablehlo.compare EQ, %b, %a : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.custom_call @shape_assertion(%p, %b, %a) {has_side_effect = true}
          : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
        %0 = stablehlo.add %x, %y : tensor<?xf32>
        return %0 : tensor<?xf32>
      }
    }""")
    assert "shape_assertion" not in after
    assert "dimension 0 of argument 1 does not fit the other arguments" in after
    assert ops["util.assume.int"] == 2


def test_named_dimensions_are_equal_and_bounded() -> None:
    batch = Dim(name="batch", minimum=1, maximum=8)
    spec = [TensorSpec(name=name, shape=(batch, 4), dtype=DType.F32) for name in "xyz"]
    signature = Signature.flat("main", inputs=spec[:2], outputs=spec[2:])
    info = ProgramInfo(
        functions=(
            Function(
                signature=signature,
                arguments=(Input(index=0), Input(index=1)),
                results=(Output(index=0),),
            ),
        ),
        provenance=Provenance(framework="tensorflow", versions={}, source=""),
    )
    text = """
    func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %b = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
      %b1 = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
      %c4 = stablehlo.constant dense<4> : tensor<1xi32>
      %s = stablehlo.concatenate %b1, %c4, dim = 0
        : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
        : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
      %1 = stablehlo.add %0, %y : tensor<?x4xf32>
      return %1 : tensor<?x4xf32>
    }"""
    _, after, ops = rewrite(text, info)
    assert ops["linalg.generic"] == 0, "x has that shape already: nothing is left to broadcast"
    assert "umin = 1, umax = 8" in after
    assert "dimension 0 of argument 0 (batch) is larger than 8" in after
    assert "dimension 0 of argument 1 does not fit the other arguments" in after
    assert rewrite(text)[2]["arith.select"] == 1, "unnamed, it may be a 1 that expands"


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
