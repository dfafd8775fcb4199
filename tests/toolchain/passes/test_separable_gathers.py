"""Resizing and pooling by tables: the program before and after, and PyTorch's own answers."""

import numpy as np
import pytest
import torch
from iree.compiler import ir
from torch.nn import functional as F  # noqa: N812 - its usual name

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.functions import entry_block, find_function
from edgec.toolchain.match.resample import find_resamples
from edgec.toolchain.match.taps import read_taps
from edgec.toolchain.passes.simplify.resample_sums import ResampleSums
from edgec.toolchain.passes.simplify.separable_gathers import SeparableGathers
from edgec.toolchain.stablehlo import parse_stablehlo

SIZES = (
    ((1, 6, 8, 12), (16, 24)),
    ((2, 3, 9, 7), (4, 13)),
    ((1, 2, 5, 5), (5, 11)),
    ((1, 2, 5, 6), (5, 6)),
)
RESIZES = {
    "bilinear": {"mode": "bilinear"},
    "bilinear by corners": {"mode": "bilinear", "align_corners": True},
    "bicubic": {"mode": "bicubic"},
    "bicubic by corners": {"mode": "bicubic", "align_corners": True},
    "nearest": {"mode": "nearest"},
    "nearest-exact": {"mode": "nearest-exact"},
    "area": {"mode": "area"},
}


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def parsed(function, x, context):
    return parse_stablehlo(export(Model(function).eval(), (x,)).bytecode, context)


def image(sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize(("before", "after"), SIZES)
def test_every_resize_is_one_map_with_the_meaning_that_pytorch_gives(before, after):
    def function(x):
        return tuple(F.interpolate(x, size=after, **options) for options in RESIZES.values())

    x = image(before)
    with ir.Context() as context:
        module = parsed(function, x, context)
        block = entry_block(find_function(module, "main"))
        found = {each.value: each.map for each in find_resamples(block, Constants())}
        results = list(block.operations)[-1].operands
        maps = [found.pop(value, None) for value in results]
        assert not found
        for name, map_, want in zip(RESIZES, maps, function(x.double()), strict=True):
            if map_ is None:  # equal windows or no change: PyTorch's export has them as such
                assert name == "area"
                continue
            answer = map_.of(x.numpy().reshape(map_.source)).reshape(want.shape)
            np.testing.assert_allclose(answer, want.numpy(), atol=2e-5, err_msg=name)


@pytest.mark.parametrize("size", [(3, 5), (1, 7), (8, 5)])
def test_adaptive_pooling_with_windows_that_differ_is_one_map(size):
    x = image((2, 3, 8, 12))
    with ir.Context() as context:
        module = parsed(lambda x: F.adaptive_avg_pool2d(x, size), x, context)
        (resample,) = find_resamples(entry_block(find_function(module, "main")), Constants())
        answer = resample.map.of(x.numpy().reshape(resample.map.source))
    want = F.adaptive_avg_pool2d(x.double(), size).numpy()
    np.testing.assert_allclose(answer.reshape(want.shape), want, atol=1e-6)


def rewritten(function, x, *, written: bool = False):
    with ir.Context() as context:
        module = parsed(function, x, context)
        count = SeparableGathers().run(module)
        if written:
            ResampleSums().run(module)
        module.operation.verify()
        return str(module), count


def test_a_bilinear_resize_becomes_one_resampling_an_axis():
    after, count = rewritten(
        lambda x: F.interpolate(x, size=(16, 24), mode="bilinear"), image((1, 6, 8, 12))
    )
    assert count == 1
    assert after.count("stablehlo.custom_call @edgec.resample") == 2
    assert "stablehlo.gather" not in after


def test_nearest_by_a_whole_factor_becomes_one_broadcast():
    after, count = rewritten(
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), image((1, 6, 8, 12))
    )
    assert count == 1
    assert after.count("stablehlo.broadcast_in_dim") == 1
    assert "tensor<1x6x8x2x12x2xf32>" in after
    assert "edgec.resample" not in after
    assert "stablehlo.gather" not in after


def test_every_second_pixel_becomes_a_slice():
    after, count = rewritten(
        lambda x: F.interpolate(x, size=(4, 6), mode="nearest"), image((1, 6, 8, 12))
    )
    assert count == 1
    assert after.count("stablehlo.slice") == 2
    assert "edgec.resample" not in after
    assert "stablehlo.gather" not in after


def test_rows_are_gathered_whole_and_the_last_axis_is_a_product():
    after, _ = rewritten(
        lambda x: F.interpolate(x, size=(16, 24), mode="bilinear"),
        image((1, 6, 8, 12)),
        written=True,
    )
    assert after.count('"stablehlo.gather"(') == 2
    assert "slice_sizes = array<i64: 1, 6, 1, 12>" in after
    assert after.count("stablehlo.dot_general") == 1
    assert "edgec.resample" not in after


def test_an_index_that_the_caller_gives_stays_a_gather():
    after, count = rewritten(
        lambda x: x[:, :, x[0, 0, 0].to(torch.int64) % 8], image((1, 6, 8, 12))
    )
    assert count == 0
    assert "stablehlo.gather" in after


def test_a_table_that_mixes_two_axes_stays_a_gather():
    rows, columns = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[3, 1], [0, 2]])
    after, count = rewritten(lambda x: x[:, :, rows, columns] * 1.5, image((1, 6, 8, 12)))
    assert count == 0
    assert "stablehlo.gather" in after


def test_a_factor_that_mixes_two_axes_is_not_taken_in():
    factor = image((16, 24), 1)
    after, count = rewritten(
        lambda x: F.interpolate(x, size=(16, 24), mode="nearest") * factor, image((1, 6, 8, 12))
    )
    assert count == 1
    assert "stablehlo.multiply" in after


def test_a_value_used_before_and_after_more_arithmetic_is_right_in_both():
    def function(x):
        y = F.interpolate(x, size=(16, 24), mode="bilinear")
        return torch.relu(y), y * 2

    after, _ = rewritten(function, image((1, 6, 8, 12)))
    assert "stablehlo.gather" not in after


def every_way(x):
    """One result for each way of resizing, and what surrounds it in networks."""
    images = torch.relu(x)
    ways = [F.interpolate(images, size=(13, 24), **options) for options in RESIZES.values()]
    ways += [
        F.adaptive_avg_pool2d(images, (3, 5)),
        F.interpolate(images[0], size=13, mode="linear"),
        torch.roll(images, (2, -3), (2, 3)),
        F.pixel_shuffle(images, 2),
        images[:, :, torch.tensor([0, 2, 2, 7]), :],
        F.pad(images, (2, 3, 1, 2), mode="reflect"),
        F.interpolate(images.half(), size=(16, 24), mode="bilinear").float(),
        F.interpolate(images.permute(0, 2, 3, 1).permute(0, 3, 1, 2), scale_factor=2.0) + 1,
    ]
    return tuple(ways)


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_the_answers_are_those_of_pytorch(target, tmp_path):
    x = image((1, 8, 8, 12), 3)
    module = compile(
        export(Model(every_way), (x,)),
        target,
        CompileOptions(cache=False, output=tmp_path / "m.vmfb"),
    )
    with load(module) as loaded:
        answers = [np.asarray(answer) for answer in loaded.main(x.numpy())]
    for answer, want in zip(answers, every_way(x), strict=True):
        np.testing.assert_allclose(answer, want.numpy(), rtol=2e-3, atol=2e-3)
    for answer, want in zip(answers[:-2], every_way(x)[:-2], strict=True):
        np.testing.assert_allclose(answer, want.numpy(), rtol=1e-5, atol=1e-5)


def test_a_row_of_fewer_elements_reads_no_others():
    matrix = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]])
    taps = read_taps(matrix)
    assert [set(row) for row in taps.places.tolist()] == [{0, 1, 2}, {2, 3}, {3}]
    assert (taps.weights > 0).all()
    np.testing.assert_array_equal(taps.matrix(), matrix)
