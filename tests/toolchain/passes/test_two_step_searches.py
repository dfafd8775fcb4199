"""Places of the largest and smallest numbers, against NumPy's and the frameworks'."""

from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.simplify.two_step_searches import TwoStepSearches
from tests.toolchain.passes.before_after import rewrite

FIRST = """
func.func @main(%x: tensor<80x100xf32>) -> (tensor<100xf32>, tensor<100xi32>) {
  %i = stablehlo.iota dim = 0 : tensor<80x100xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = "stablehlo.reduce"(%x, %i, %low, %none) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %p: tensor<i32>, %b: tensor<f32>, %q: tensor<i32>):
    %is = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %value = stablehlo.select %is, %a, %b : tensor<i1>, tensor<f32>
    %same = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %least = stablehlo.minimum %p, %q : tensor<i32>
    %one = stablehlo.select %is, %p, %q : tensor<i1>, tensor<i32>
    %place = stablehlo.select %same, %least, %one : tensor<i1>, tensor<i32>
    stablehlo.return %value, %place : tensor<f32>, tensor<i32>
  }) : (tensor<80x100xf32>, tensor<80x100xi32>, tensor<f32>, tensor<i32>)
    -> (tensor<100xf32>, tensor<100xi32>)
  return %0#0, %0#1 : tensor<100xf32>, tensor<100xi32>
}"""
OTHERS = {
    "the last of equals": ("stablehlo.minimum %p", "stablehlo.maximum %p"),
    "by bits": ("GE, %a, %b :", "GE, %a, %b, TOTALORDER :"),
    "any of equals": ("select %same, %least, %one", "select %same, %one, %one"),
    "another number": ("select %is, %a, %b", "select %is, %b, %a"),
    "few": ("80x100", "8x100"),
    "numbers passed over": (
        "GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    %not = stablehlo.compare NE, %b, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "    %is = stablehlo.or %ge, %not : tensor<i1>",
    ),
}


def test_a_step_without_nan_is_taken() -> None:
    count, after = rewrite(TwoStepSearches(), FIRST)
    assert count == 1
    assert after.count("stablehlo.reduce(") + after.count('"stablehlo.reduce"') == 2


@pytest.mark.parametrize("name", OTHERS)
def test_other_reductions_stay(name: str) -> None:
    old, new = OTHERS[name]
    text = FIRST.replace(old, new)
    if "%ge" in text:
        text = text.replace("%is = stablehlo.compare", "%ge = stablehlo.compare")
    assert text != FIRST
    assert rewrite(TwoStepSearches(), text)[0] == 0


def test_numbers_whose_sign_only_a_comparison_knows_stay() -> None:
    signless = FIRST.replace("GE, %a, %b :", "GE, %a, %b, UNSIGNED :").replace("xf32>", "xi8>")
    signless = signless.replace("tensor<f32>", "tensor<i8>").replace("0xFF800000", "0")
    assert rewrite(TwoStepSearches(), signless)[0] == 0
    unsigned = signless.replace("i8>", "ui8>")
    assert rewrite(TwoStepSearches(), unsigned)[0] == 1


def test_what_it_begins_with_counts(tmp_path: Path) -> None:
    """An initial value above all numbers is the answer, and its place is."""
    text = FIRST.replace("dense<0xFF800000>", "dense<9.0>").replace("dense<0> ", "dense<77> ")
    assert rewrite(TwoStepSearches(), text)[0] == 1
    (tmp_path / "case.mlir").write_text(text)
    x = np.random.default_rng(1).standard_normal((80, 100)).astype(np.float32)
    x[5, :50] = 11
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        values, places = loaded.main(x)
    np.testing.assert_array_equal(places, [5] * 50 + [77] * 50)
    np.testing.assert_array_equal(values, [11] * 50 + [9] * 50)


def numbers(kind: object, shape: tuple[int, ...]) -> np.ndarray:
    """Some of them equal, and where the type has it some NaN and infinity."""
    rng = np.random.default_rng(3)
    x = rng.integers(-20 if np.dtype(kind).kind != "u" else 0, 90, shape).astype(kind)
    if np.dtype(kind).kind not in "iu":
        x[0, 3:9] = np.nan
        x[1, 5] = np.inf
        x[2] = -np.inf
        x[3, 7:9] = -np.inf
    return x


def compiled(program, x: np.ndarray, tmp_path: Path) -> list[np.ndarray]:
    assert rewrite(TwoStepSearches(), program.bytecode)[0] == 4
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False)
    with runtime.load(toolchain.compile(program, "cpu", options)) as loaded:
        return [np.asarray(each) for each in loaded.main(x)]


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(
    "kind", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.uint8]
)
def test_jax_finds_what_numpy_finds(kind: object, tmp_path: Path) -> None:
    x = numbers(kind, (40, 130))
    program = export(
        lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), jnp.argmin(x)), (x,)
    )
    wide = x.astype(np.float64)
    found = compiled(program, x, tmp_path)
    expected = wide.argmax(1), wide.argmin(0), wide.argmax(), wide.argmin()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Both(torch.nn.Module):
    def forward(self, x):
        return (*x.max(1), *x.min(0), x.argmax(), x.argmin(1))


def test_pytorch_finds_what_it_finds_itself(tmp_path: Path) -> None:
    x = numbers(np.float32, (40, 130))
    program = export(Both(), (torch.from_numpy(x),))
    found = compiled(program, x, tmp_path)
    for ours, theirs in zip(found, Both()(torch.from_numpy(x)), strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy())


def test_a_gradient_through_a_maximum_is_right(tmp_path: Path) -> None:
    x = np.random.default_rng(5).standard_normal((64, 100)).astype(np.float32)
    program = export(jax.grad(lambda x: (x[jnp.arange(64), jnp.argmax(x, 1)] ** 2).sum()), (x,))
    with runtime.load(
        toolchain.compile(program, "cpu", CompileOptions(output=tmp_path / "g.vmfb"))
    ) as loaded:
        found = loaded.main(x)
    expected = np.where(x == x.max(1, keepdims=True), 2 * x, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.sweep(fast=1)
@pytest.mark.vulkan
@pytest.mark.parametrize("size", [4999, 8192])
@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_few_on_gpus_are_filled_up(size: int, kind: type, tmp_path: Path) -> None:
    x = numbers(kind, (6, size))
    program = export(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1)), (x,))
    count, after = rewrite(TwoStepSearches(most=6), program.bytecode)
    assert count == 2
    assert ("stablehlo.pad" in after) == bool(size % 4096)
    assert rewrite(TwoStepSearches(most=5), program.bytecode)[0] == 0
    with runtime.load(toolchain.compile(program, "vulkan"), device="vulkan") as loaded:
        found = [np.asarray(each) for each in loaded.main(x)]
    np.testing.assert_array_equal(found[0], np.argmax(x, 1))
    np.testing.assert_array_equal(found[1], np.argmin(x, 1))
