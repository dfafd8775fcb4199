"""Rows that a mask chooses, treated and added where they came from, compared with PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]


class Experts(torch.nn.Module):
    """Of each expert the tokens that go to it, and its answers added where they came from."""

    def __init__(self, treat: Callable[[Any], Any] = torch.tanh, count: int = 3) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(8, count)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(count))
        self.treat = treat

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(-1, 8)
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        mask = torch.nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            which, token = torch.where(mask[number])
            rows = self.treat(expert(x[None, token].reshape(-1, 8)))
            result.index_add_(0, token, rows * weights[token, which, None])
        return result


def test_a_mixture_of_experts_as_one_writes_it_down(replay: Replay) -> None:
    torch.manual_seed(0)
    model = Experts().eval()
    with torch.no_grad():
        model.gate.bias[1] = -100  # an expert without a token
    assert replay(export(model, (torch.randn(1, 5, 8),))) < 1e-5


@pytest.mark.parametrize(
    "treat",
    [lambda rows: rows - rows.mean(0), lambda rows: rows / rows.shape[0]],
    ids=["their mean", "their number"],
)
def test_rows_that_know_of_each_other_are_refused(treat: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    with pytest.raises(UnsupportedOp, match="depends on data"):
        export(Experts(treat, 2).eval(), (torch.randn(1, 3, 8),))
