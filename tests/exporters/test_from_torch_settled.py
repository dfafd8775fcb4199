"""Decisions on values: taken where no input has a part in them, else refused with their line."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]


class Deciding(nn.Module):
    """Decides on a mask that is its own where none is given, and pads by what a buffer says."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stride", torch.tensor(3))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None:
            mask = torch.ones(x.shape[0])
        x = x * 2 if (mask > 0).any().item() else x - 1
        missing = torch.ceil(x.shape[-1] / self.stride).to(torch.int64) * self.stride - x.shape[-1]
        return nn.functional.pad(x, (0, missing)) if missing > 0 else x


def test_a_decision_on_constants_is_taken(replay: Replay) -> None:
    assert replay(export(Deciding(), (torch.randn(2, 7),))) == 0


def test_a_decision_on_an_input_is_refused_with_its_line() -> None:
    with pytest.raises(
        UnsupportedOp, match="depends on data: it reads the value of a tensor"
    ) as refused:
        export(Deciding(), (torch.randn(2, 7), torch.ones(2)))
    assert "test_from_torch_settled.py" in str(refused.value.where)


def test_a_size_that_depends_on_data_is_refused_with_its_line() -> None:
    class Splitting(nn.Module):
        def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
            few, many = x.split(counts.tolist())
            return few.sum(0) * many.sum(0)  # rows meet, so no row can go alone

    with pytest.raises(UnsupportedOp, match=r"what aten\.split.* depends on data") as refused:
        export(Splitting(), (torch.randn(5, 2), torch.tensor([2, 3])))
    assert "test_from_torch_settled.py" in str(refused.value.where)
