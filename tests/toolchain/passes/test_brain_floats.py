"""bf16 where SPIR-V runs: computed in f32, rounded to the even one, 16 bits where it lies."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain.passes.legalise.brain_floats import BrainFloats
from tests.toolchain.passes.before_after import rewrite

BRAIN = np.dtype(ml_dtypes.bfloat16)
PRODUCT = """func.func @main(%a: tensor<{m}x32xbf16>, %b: tensor<32x64xbf16>)
    -> tensor<{m}x64x{out}> {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<{m}x32xbf16>, tensor<32x64xbf16>) -> tensor<{m}x64x{out}>
  return %0 : tensor<{m}x64x{out}>
}}"""


def run(text: str, folder: Path, *given: np.ndarray) -> np.ndarray:
    (folder / "case.mlir").write_text(text)
    options = toolchain.CompileOptions(output=folder / "case.vmfb", check=False)
    module = toolchain.compile(folder / "case.mlir", "vulkan", options)
    with runtime.load(module, device="edgert://vulkan") as loaded:
        return np.asarray(loaded.main(*given))


def brain(rng: np.random.Generator, *sizes: int) -> np.ndarray:
    return rng.normal(size=sizes).astype(BRAIN)


def test_it_is_multiplied_in_f32_and_kept_in_16_bits() -> None:
    count, after = rewrite(BrainFloats(), PRODUCT.format(m=4, out="bf16"))
    assert count == 3
    assert "(tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32>" in after
    assert "iree_tensor_ext.bitcast %arg0 : tensor<4x32xbf16> -> tensor<4x32xi16>" in after
    assert "tensor<4x64xi16> -> tensor<4x64xbf16>" in after


def test_others_are_left() -> None:
    other = PRODUCT.format(m=4, out="f16").replace("bf16", "f16")
    assert rewrite(BrainFloats(), other)[0] == 0


def test_loops_functions_and_bits_keep_their_meaning() -> None:
    """A function's arguments and the bits of a number are those of bf16, a loop's values f32."""
    _, after = rewrite(
        BrainFloats(),
        """func.func @main(%x: tensor<8xbf16>, %n: tensor<i32>) -> tensor<8xi16> {
          %c = stablehlo.constant dense<1.5> : tensor<8xbf16>
          %0:2 = stablehlo.while(%i = %n, %v = %c) : tensor<i32>, tensor<8xbf16>
            cond {
              %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %1 : tensor<i1>
            } do {
              %1 = func.call @more(%v, %x) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
              stablehlo.return %i, %1 : tensor<i32>, tensor<8xbf16>
            }
          %2 = stablehlo.bitcast_convert %0#1 : (tensor<8xbf16>) -> tensor<8xi16>
          return %2 : tensor<8xi16>
        }
        func.func private @more(%a: tensor<8xbf16>, %b: tensor<8xbf16>) -> tensor<8xbf16> {
          %0 = stablehlo.add %a, %b : tensor<8xbf16>
          return %0 : tensor<8xbf16>
        }""",
    )
    assert "dense<1.500000e+00> : tensor<8xf32>" in after
    assert "stablehlo.add" in after and ": tensor<8xf32>" in after
    assert "call @more" in after and "(tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>" in after
    assert "(tensor<8xbf16>) -> tensor<8xi16>" in after


@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("rows", "out"), [("4", "bf16"), ("4", "f32"), ("?", "bf16"), ("128", "bf16")]
)
def test_products_are_numpys(rows: str, out: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a = brain(rng, 5 if rows == "?" else int(rows), 32)
    b = brain(rng, 32, 64)
    found = run(PRODUCT.format(m=rows, out=out), tmp_path, a, b)
    assert found.dtype == (BRAIN if out == "bf16" else np.float32)
    right = a.astype(np.float64) @ b.astype(np.float64)
    part = 2.0**-8 if out == "bf16" else 1e-6
    np.testing.assert_allclose(found.astype(np.float64), right, rtol=part, atol=1e-5)


@pytest.mark.vulkan
def test_a_convolution_is_numpys(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    image, kernel = brain(rng, 1, 6, 6, 4), brain(rng, 1, 1, 4, 8)
    text = """func.func @main(%x: tensor<1x6x6x4xbf16>, %k: tensor<1x1x4x8xbf16>)
        -> tensor<1x6x6x8xbf16> {
      %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x6x6x4xbf16>, tensor<1x1x4x8xbf16>) -> tensor<1x6x6x8xbf16>
      return %0 : tensor<1x6x6x8xbf16>
    }"""
    right = image.astype(np.float64) @ kernel[0, 0].astype(np.float64)
    found = run(text, tmp_path, image, kernel).astype(np.float64)
    np.testing.assert_allclose(found, right, rtol=2.0**-8, atol=1e-5)


@pytest.mark.vulkan
def test_sums_are_rounded_as_ml_dtypes_rounds(tmp_path: Path) -> None:
    """Two terms whose sum is exact in f32: ties, both ways, infinities and what is no number."""
    a = np.zeros((64, 32), BRAIN)
    a[:, 0] = np.arange(64) / 64 + 1
    a[:, 1] = np.tile([2.0**-8, -(2.0**-8), 3 * 2.0**-8, 2.0**-20], 16)
    a[60:, 0] = np.inf, -np.inf, np.nan, 3e38
    b = np.zeros((32, 64), BRAIN)
    b[:2] = 1
    right = a[:, 0].astype(np.float32) + a[:, 1].astype(np.float32)
    found = run(PRODUCT.format(m=64, out="bf16"), tmp_path, a, b)
    for column in found.T:
        np.testing.assert_array_equal(
            column[:62].astype(np.float32), right.astype(BRAIN)[:62].astype(np.float32)
        )
        assert np.isnan(column[62].astype(np.float32))
        assert column[63] == right.astype(BRAIN)[63]


@pytest.mark.vulkan
def test_a_model_with_norms_and_rows_looked_up_is_pytorchs(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Embedding(50, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 32), torch.nn.GELU()
    ).eval()
    tokens = torch.randint(0, 50, (2, 12))
    right = layers(tokens).detach().numpy()
    program = export(layers.to(torch.bfloat16), (tokens,))
    options = toolchain.CompileOptions(output=tmp_path / "model.vmfb")
    made = toolchain.compile_with_report(program, "vulkan", options)
    assert any("computed in f32" in note for note in made.report.notes)
    with runtime.load(made.module, device="edgert://vulkan") as loaded:
        found = np.asarray(loaded.main(tokens.numpy())).astype(np.float32)
    np.testing.assert_allclose(found, right, rtol=0, atol=0.03)
