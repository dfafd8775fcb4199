"""PyTorch's pooling whose windows reach beyond the signal: compared with PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as functional
from torch import nn

from edgec.exporters import export
from edgec.toolchain.program import Dialect, Program

Replay = Callable[[Program], float]


class OfImages(nn.Module):
    """Windows that fit, that reach beyond the end, and one that PyTorch leaves out there."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        values, places = functional.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)
        mean = functional.avg_pool2d
        return {
            "values": values,
            "places": places,
            "squeezed": functional.max_pool2d(x, 3, 2, ceil_mode=True),
            "spread": functional.max_pool2d(x, 2, 3, dilation=2, ceil_mode=True),
            "left_out": functional.max_pool2d(x, (1, 2), (3, 2), (0, 1), ceil_mode=True),
            "integers": functional.max_pool2d((8 * x).int(), 2, ceil_mode=True),
            "line": functional.max_pool1d(x[:, 0], 3, 2, ceil_mode=True),
            "means": mean(x, 3, 2, ceil_mode=True),
            "with_padding": mean(x, 3, 2, 1, ceil_mode=True),
            "without": mean(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            "left_out_mean": mean(x, 2, 3, 1, ceil_mode=True),
            "divided": mean(x, 3, 2, 1, divisor_override=5),
            "both": mean(x, 2, 3, ceil_mode=True, divisor_override=3),
            "powers": functional.lp_pool2d(x.abs(), 2.0, 3, 2, ceil_mode=True),
        }


class OfVolumes(nn.Module):
    """The same in three dimensions."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "largest": functional.max_pool3d(x, 2, 2, ceil_mode=True),
            "means": functional.avg_pool3d(x, 2, 2, 1, ceil_mode=True, count_include_pad=False),
        }


@pytest.mark.parametrize(
    ("model", "shape"),
    [(OfImages, (2, 3, 12, 15)), (OfImages, (1, 2, 13, 14)), (OfVolumes, (1, 2, 5, 6, 7))],
)
def test_windows_that_reach_beyond_the_end(
    model: Callable[[], nn.Module], shape: tuple[int, ...], replay: Replay
) -> None:
    torch.manual_seed(sum(shape))
    program = export(model().eval(), (torch.randn(*shape),))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) < 1e-6


def test_windows_of_a_volume_that_differ_in_size(replay: Replay) -> None:
    x = torch.randint(0, 9, (2, 3, 5, 6, 7), generator=torch.Generator().manual_seed(0)).float()
    program = export(nn.AdaptiveMaxPool3d((2, 1, 3), return_indices=True), (x,))
    assert program.info.dialect is Dialect.STABLEHLO
    assert replay(program) == 0
