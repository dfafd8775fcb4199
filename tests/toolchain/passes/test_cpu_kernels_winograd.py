"""Which convolutions Winograd's kernel takes, and that it is as exact as the plain one."""

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import Convolution, Result, VectorUnit, winograd_tiling
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels

UNIT = VectorUnit(lanes=16, registers=32)
TEXT = """
func.func @main(%x: tensor<1x20x20xCxf32>) -> tensor<1x20x20x64xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<3x3xCx64xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[D, D], [D, D]], rhs_dilate = [D, D]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x20x20xCxf32>, tensor<3x3xCx64xf32>) -> tensor<1x20x20x64xf32>
  return %0 : tensor<1x20x20x64xf32>
}
"""


def taken(channels: int, dilation: int) -> bool:
    with ir.Context():
        text = TEXT.replace("xCx", f"x{channels}x").replace("D", str(dilation))
        module = ir.Module.parse(text)
        CpuKernels(unit=UNIT).run(module)
        module.operation.verify()
        return "edgec_winograd_3x3_20x20" in str(module)


def test_windows_of_three_by_three_over_many_channels_are_taken():
    assert taken(64, 1)


def test_few_channels_dilation_and_very_many_channels_are_not():
    assert not taken(8, 1)
    assert not taken(64, 2)
    assert not taken(2048, 1)


def cut_of(size, channels, outputs):
    result = Result(height=size, width=size, channels=outputs)
    conv = Convolution(
        height=size + 2, width=size + 2, channels=channels, result=result, window=(3, 3)
    )
    return winograd_tiling(conv, UNIT)


@pytest.mark.parametrize(
    ("size", "channels", "groups", "runs"),
    [(14, 128, 4, 1), (14, 256, 7, 8), (56, 64, 56, 1), (12, 192, 4, 6)],
)
def test_weights_are_fetched_once_for_groups_of_tiles_that_are_alike(size, channels, groups, runs):
    cut = cut_of(size, channels, channels)
    assert cut is not None
    assert (cut.groups, cut.runs) == (groups, runs)
    assert 0 <= cut.groups * cut.tiles - cut.down * cut.across < cut.groups
    assert 4 * 16 * cut.tiles * (channels + cut.panel) <= UNIT.stack
    weights = 4 * 16 * channels * cut.panel * -(-cut.panels // cut.runs)
    assert weights <= UNIT.cache.size


@pytest.mark.parametrize(("size", "channels", "outputs"), [(7, 256, 256), (8, 64, 256)])
def test_few_pixels_are_not_worth_more_weights(size, channels, outputs):
    assert cut_of(size, channels, outputs) is None


@pytest.mark.parametrize(("size", "channels", "outputs"), [(20, 128, 64), (13, 256, 80)])
def test_it_is_no_less_exact_than_sums_in_order(size, channels, outputs, tmp_path):
    numbers = np.random.default_rng(0)
    w = (numbers.standard_normal((3, 3, channels, outputs)) / 34).astype(np.float32)
    x = numbers.standard_normal((1, size, size, channels)).astype(np.float32)

    def convolve(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def error(disabled: tuple[str, ...]) -> float:
        program = export(lambda x: convolve(x, w), (x,))
        options = CompileOptions(cache=False, output=tmp_path / "m.vmfb", disabled=disabled)
        with load(compile(program, "cpu", options)) as loaded:
            return float(np.abs(np.asarray(loaded.main(x)) - exact).max())

    with jax.enable_x64(True):
        exact = np.asarray(convolve(x.astype(np.float64), w.astype(np.float64)))
    assert error(()) < 2 * error(("cpu-kernels",)) + 1e-6


@pytest.mark.parametrize("flat", [0, 1, 2])
def test_a_films_windows_over_two_axes_are_taken_too(flat, tmp_path):
    """As `torchvision.models.video.mc3_18` has them: its weights have a window of one beside."""
    rng = np.random.default_rng(flat)
    sides = [20, 21]
    sides.insert(flat, 3)
    window = [3, 3]
    window.insert(flat, 1)
    x = rng.standard_normal((1, 64, *sides)).astype(np.float32)
    w = rng.standard_normal((64, 64, *window)).astype(np.float32)

    def main(x):
        pads = [(side // 2, side // 2) for side in window]
        return jax.lax.conv_general_dilated(x, w, (1, 1, 1), pads)

    program = export(main, (x,))
    module = compile(program, "cpu", CompileOptions(output=tmp_path / "film.vmfb"))
    with load(module) as loaded:
        np.testing.assert_allclose(np.asarray(loaded.main(x)), main(x), 1e-3, 1e-3)


def test_an_odd_image_has_the_same_bits_on_any_number_of_threads(tmp_path):
    """The last tile overlaps the one before it, whose sums there are rounded otherwise."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 13, 15, 64)).astype(np.float32)
    w = rng.standard_normal((3, 3, 64, 96)).astype(np.float32)

    def main(x):
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    program = export(main, (x,))
    module = compile(program, "cpu", CompileOptions(output=tmp_path / "odd.vmfb"))
    with load(module, device="edgert://cpu?threads=1") as loaded:
        alone = np.asarray(loaded.main(x)).copy()
    np.testing.assert_allclose(alone, main(x), 1e-3, 1e-3)
    with load(module, device="edgert://cpu?threads=4") as loaded:
        for _ in range(40):
            np.testing.assert_array_equal(np.asarray(loaded.main(x)), alone)
