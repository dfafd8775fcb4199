"""Images read at computed places: compared with onnxruntime, or with onnx.reference."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

from edgec.exporters import export
from edgec.toolchain.program import Program
from tests.exporters.test_from_onnx_decompose import model_of, normal

Replay = Callable[[Program], float]


@pytest.mark.parametrize(
    "sizes",
    [pytest.param((5, 4), id="2d"), pytest.param((3, 4, 5), id="3d", marks=pytest.mark.slow)],
)
def test_grids_of_all_modes_and_paddings(replay: Replay, sizes: tuple[int, ...]) -> None:
    modes = ("linear", "nearest", "cubic") if len(sizes) == 2 else ("linear", "nearest")
    ways = [
        (mode, padding, aligned)
        for mode in modes
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ]
    names = [f"{mode}_{padding}_{aligned}" for mode, padding, aligned in ways]
    nodes = [
        helper.make_node("GridSample", ["x", "grid"], [n], mode=m, padding_mode=p, align_corners=a)
        for n, (m, p, a) in zip(names, ways, strict=True)
    ]
    grid = normal(2, *sizes[::-1], len(sizes)) * 1.5
    grid[0, 0] = 0.5  # between two pixels
    inputs = {"x": normal(2, 3, *sizes), "grid": grid}
    model = model_of(nodes, inputs, names, {}, 20)
    model.ir_version = 10  # which onnxruntime takes
    assert replay(export(model, tuple(inputs.values()))) < 1e-4


def test_regions_cut_into_bins(replay: Replay) -> None:
    ways = [(mode, how) for mode in ("avg", "max") for how in ("half_pixel", "output_half_pixel")]
    nodes = [
        helper.make_node(
            "RoiAlign",
            ["x", "rois", "of"],
            [f"{mode}_{how}"],
            mode=mode,
            coordinate_transformation_mode=how,
            output_height=3,
            output_width=2,
            sampling_ratio=2,
            spatial_scale=0.5,
        )
        for mode, how in ways
    ]
    rois = np.array([[0, 0, 9, 7], [-6, 3, 30, 9], [4, 4, 4.2, 4.1]], np.float32)
    inputs = {"x": normal(2, 3, 6, 8), "rois": rois, "of": np.array([1, 0, 1], np.int64)}
    model = model_of(nodes, inputs, [f"{mode}_{how}" for mode, how in ways], {}, 16)
    model.ir_version = 10  # which onnxruntime takes
    assert replay(export(model, tuple(inputs.values()))) < 1e-5


def test_convolutions_whose_windows_move(replay: Replay) -> None:
    node = helper.make_node(
        "DeformConv",
        ["x", "w", "moved", "b", "mask"],
        ["y"],
        kernel_shape=[3, 2],
        pads=[1, 0, 1, 1],
        strides=[2, 1],
        dilations=[1, 2],
        group=2,
        offset_group=2,
    )
    inputs = {"x": normal(2, 4, 6, 5), "moved": normal(2, 24, 3, 4)}
    inputs["mask"] = normal(2, 12, 3, 4)
    weights = {"w": normal(6, 2, 3, 2), "b": normal(6)}
    model = model_of([node], inputs, ["y"], weights, 19)
    model.ir_version = 10  # which onnxruntime takes
    assert replay(export(model, tuple(inputs.values()))) < 1e-4
