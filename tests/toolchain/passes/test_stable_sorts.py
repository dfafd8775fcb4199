"""Equal elements keep their order in a sort that says so."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.stable_sorts import StableSorts
from tests.toolchain.passes.before_after import rewrite

PAIRS = """
func.func @main(%x: tensor<4x40xi32>, %y: tensor<4x40xf32>)
    -> (tensor<4x40xi32>, tensor<4x40xf32>) {
  %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):
    %1 = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<4x40xi32>, tensor<4x40xf32>) -> (tensor<4x40xi32>, tensor<4x40xf32>)
  return %0#0, %0#1 : tensor<4x40xi32>, tensor<4x40xf32>
}"""
ARGSORT = PAIRS.replace("%y: tensor<4x40xf32>)", "%z: tensor<4x40xf32>)").replace(
    "  %0:2", "  %y = stablehlo.iota dim = 1 : tensor<4x40xf32>\n  %0:2"
)


def test_places_are_the_last_key() -> None:
    count, after = rewrite(StableSorts(), PAIRS)
    assert count == 1
    assert "stablehlo.iota dim = 1 : tensor<4x40xi32>" in after
    assert "tensor<4x40xi32>, tensor<4x40xf32>, tensor<4x40xi32>)" in after


def test_places_that_are_there_are_used() -> None:
    count, after = rewrite(StableSorts(), ARGSORT)
    assert count == 1
    assert after.count("stablehlo.iota") == 1


def test_other_sorts_get_no_key() -> None:
    _, after = rewrite(StableSorts(), PAIRS.replace("is_stable = true", "is_stable = false"))
    assert "stablehlo.iota" not in after


ONE = """
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<40xf32>) -> tensor<40xf32>
  return %0 : tensor<40xf32>
}"""


def test_the_callers_array_is_not_sorted(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(ONE)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    memory = np.empty(40 * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 64  # the runtime shares arrays that lie so
    x = memory[start : start + 160].view(np.float32)
    x[:] = np.random.default_rng(8).random(40)
    before = x.copy()
    with runtime.load(module) as loaded:
        np.testing.assert_array_equal(loaded.main(x), np.sort(before))
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("text", [PAIRS, ARGSORT], ids=["pairs", "argsort"])
def test_equal_elements_keep_their_order(text: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    x, y = rng.integers(0, 4, (4, 40)).astype(np.int32), rng.random((4, 40)).astype(np.float32)
    (tmp_path / "case.mlir").write_text(text)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    with runtime.load(module) as loaded:
        keys, carried = loaded.main(x, y)
    order = np.argsort(x, axis=1, kind="stable")
    counted = np.broadcast_to(np.arange(40, dtype=np.float32), (4, 40))
    expected = np.take_along_axis(y if text is PAIRS else counted, order, 1)
    np.testing.assert_array_equal(keys, np.sort(x, axis=1))
    np.testing.assert_array_equal(carried, expected)


def test_a_sort_that_is_used_in_part_keeps_all_its_results() -> None:
    used = PAIRS.replace("is_stable = true", "is_stable = false").replace(
        "return %0#0, %0#1 :", "return %x, %0#1 :"
    )
    count, after = rewrite(StableSorts(), used)
    assert count == 1
    assert "stablehlo.optimization_barrier %" in after
    assert "stablehlo.iota" not in after


def _two(name: str, keys: str) -> str:
    return f"""
  {name}:2 = "stablehlo.sort"({keys}, %i) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }}) : (tensor<32xi32>, tensor<32xi32>) -> (tensor<32xi32>, tensor<32xi32>)"""


READ_AGAIN = f"""
func.func @main(%x: tensor<32xi32>, %y: tensor<32xi32>) -> (tensor<32xi32>, tensor<32xi32>) {{
  %i = stablehlo.multiply %x, %y : tensor<32xi32>{_two("%s", "%x")}{_two("%t", "%y")}
  %u = stablehlo.add %s#1, %t#1 : tensor<32xi32>
  return %i, %u : tensor<32xi32>, tensor<32xi32>
}}"""

TWO = f"""
func.func @main(%x: tensor<32xi32>, %y: tensor<32xi32>) -> (tensor<32xi32>, tensor<32xi32>) {{
  %i = stablehlo.iota dim = 0 : tensor<32xi32>{_two("%s", "%x")}{_two("%t", "%y")}
  return %s#1, %t#1 : tensor<32xi32>, tensor<32xi32>
}}"""


def test_two_sorts_that_share_their_places_are_both_right(tmp_path: Path) -> None:
    """As a mixture of experts has them, one a layer; the compiler alone gives wrong places."""
    (tmp_path / "case.mlir").write_text(TWO)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    random = np.random.default_rng(0)
    x, y = (random.integers(0, 9, 32).astype(np.int32) for _ in range(2))
    with runtime.load(module.path) as loaded:
        found = [np.asarray(each) for each in loaded["main"](x, y)]
    for places, keys in zip(found, (x, y), strict=True):
        np.testing.assert_array_equal(places, np.argsort(keys, kind="stable"))


def test_what_a_sort_carries_can_be_read_again(tmp_path: Path) -> None:
    """As the gradient of eigenvalues does; behind a barrier alone, the sort writes over it."""
    (tmp_path / "case.mlir").write_text(READ_AGAIN)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    random = np.random.default_rng(0)
    x, y = (random.integers(0, 9, 32).astype(np.int32) for _ in range(2))
    with runtime.load(module.path) as loaded:
        product, carried = (np.asarray(each) for each in loaded["main"](x, y))
    np.testing.assert_array_equal(product, x * y)
    orders = (np.argsort(keys, kind="stable") for keys in (x, y))
    np.testing.assert_array_equal(carried, sum((x * y)[order] for order in orders))


SPREAD_COUNT = """
func.func @main(%x: tensor<2x7xi32>) -> tensor<2x7xi32> {
  %i = stablehlo.iota dim = 0 : tensor<7xi32>
  %all = stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<7xi32>) -> tensor<2x7xi32>
  %s:2 = "stablehlo.sort"(%x, %all) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
  }) {dimension = 1 : i64, is_stable = true}
    : (tensor<2x7xi32>, tensor<2x7xi32>) -> (tensor<2x7xi32>, tensor<2x7xi32>)
  return %s#1 : tensor<2x7xi32>
}"""


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_what_is_the_same_in_each_call_is_not_sorted_itself(target: str, tmp_path: Path) -> None:
    """It is worked out once for all calls, and the next one would find it sorted."""
    (tmp_path / "case.mlir").write_text(SPREAD_COUNT)
    random = np.random.default_rng(0)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", target)) as loaded:
        for _ in range(3):
            x = random.integers(0, 9, (2, 7)).astype(np.int32)
            answer = np.asarray(loaded["main"](x))
            np.testing.assert_array_equal(answer, np.argsort(x, kind="stable"))


@pytest.mark.parametrize(
    "part",
    [
        "stablehlo.slice %x [0:4, 0:40] : (tensor<9x40xi32>) -> tensor<4x40xi32>",
        """"stablehlo.gather"(%x, %i) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 40>
  }> : (tensor<9x40xi32>, tensor<4x1xi32>) -> tensor<4x40xi32>""",
    ],
)
def test_a_part_that_is_sorted_has_a_module_for_cuda(part: str, tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(
        f"""func.func @main(%x: tensor<9x40xi32>, %i: tensor<4x1xi32>) -> tensor<4x40xi32> {{
  %0 = {part}
  %1 = "stablehlo.sort"(%0) <{{dimension = 1 : i64}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %2 = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }}) : (tensor<4x40xi32>) -> tensor<4x40xi32>
  return %1 : tensor<4x40xi32>
}}"""
    )
    assert "cuda" in repr(toolchain.compile(tmp_path / "f.mlir", "cuda:sm_80"))
