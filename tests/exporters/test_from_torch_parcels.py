"""Parts whose sizes are known at run time, each treated in its own way, compared with PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from edgec.exporters import export
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]
functional = torch.nn.functional


class Experts(torch.nn.Module):
    """Tokens sorted by expert, split among the experts, joined, and back in their places."""

    def __init__(self, treat: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(8, 3)
        self.weight = torch.nn.Parameter(torch.randn(3, 5, 8))
        self.treat = treat

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.gate(x).argmax(-1)
        order = chosen.sort(stable=True).indices
        counts = functional.one_hot(chosen, 3).sum(0).tolist()
        parts = x[order].split(counts, dim=0)
        treated = [self.treat(part, self.weight[i]) for i, part in enumerate(parts)]
        joined = torch.cat(treated, 0).tanh()
        return torch.zeros(x.shape[0], joined.shape[1]).index_add(0, order, joined)


@pytest.mark.parametrize(
    "treat",
    [
        lambda part, weight: functional.gelu(functional.linear(part, weight)),
        lambda part, weight: functional.linear(2 * part, weight, weight[:, 0]) + weight[:, 1],
    ],
    ids=["gelu", "bias"],
)
def test_rows_that_do_not_know_of_each_other(
    treat: Callable[[Any, Any], Any], replay: Replay
) -> None:
    torch.manual_seed(0)
    program = export(Experts(treat).eval(), (torch.randn(17, 8),))
    assert replay(program) < 1e-5


def test_an_expert_without_a_token(replay: Replay) -> None:
    torch.manual_seed(0)
    model = Experts(functional.linear).eval()
    with torch.no_grad():
        model.gate.bias[1] = -100
    assert replay(export(model, (torch.randn(6, 8),))) < 1e-5


def test_parts_whose_rows_meet_are_refused() -> None:
    torch.manual_seed(0)
    model = Experts(lambda part, weight: functional.linear(part - part.mean(0), weight)).eval()
    with pytest.raises(UnsupportedOp, match="depends on data"):
        export(model, (torch.randn(17, 8),))
