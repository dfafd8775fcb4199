"""Indices that count from the end, known and given: compared with PyTorch."""

from collections.abc import Callable

import torch
from torch import nn

from edgec.exporters import export
from edgec.exporters.from_torch.capture import callee, capture
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]


class Indexing(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        changed = x.clone()
        changed[:, index] = 7.0
        return [x[..., [-2], :], x[:, index], x[:, index, index % 3], changed]


def test_indices_may_count_from_the_end(replay: Replay) -> None:
    assert replay(export(Indexing(), (torch.randn(2, 5, 3), torch.tensor([-1, 2, -5])))) == 0


def test_indices_that_cannot_be_negative_are_left_alone() -> None:
    class Resizing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            at = torch.arange(8) * 0.6
            return x[:, at.floor().to(torch.int64)] + x[:, x[0].argmax().reshape(1)]

    program = capture(callee(Resizing()), (torch.randn(2, 5),), {}, None)
    assert not any("where" in str(node.target) for node in program.graph.nodes)
