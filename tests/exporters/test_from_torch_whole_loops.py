"""Loops over what a mask chose, made over all that it could have chosen, compared with PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from edgec.exporters import export
from edgec.exporters.from_torch.whole_loops import over_all, turns_change_nothing
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Program

Replay = Callable[[Program], float]


class Experts(torch.nn.ModuleDict):
    """As transformers writes it: only experts that have tokens get a turn."""

    def __init__(self, each_turn: float = 0.0) -> None:
        super().__init__({f"expert_{number}": torch.nn.Linear(8, 8) for number in range(2)})
        self.gate = torch.nn.Linear(8, 2)
        self.each_turn = each_turn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).max(-1)
        mask = torch.nn.functional.one_hot(chosen, 2)[:, None].permute(2, 1, 0)
        result = torch.zeros_like(x)
        for expert in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            which, token = torch.where(mask[expert].squeeze(0))
            rows = self[f"expert_{expert[0]}"](x[None, token].reshape(-1, 8))
            result.index_add_(0, token, rows * weights[:, None][token, which, None])
            result = result + self.each_turn
        return result


@pytest.fixture(scope="module")
def tokens() -> Any:
    torch.manual_seed(0)
    return torch.randn(9, 8)


def test_only_experts_with_tokens_get_a_turn(tokens: Any, replay: Replay) -> None:
    torch.manual_seed(1)
    assert replay(export(Experts().eval(), (tokens,))) < 1e-5


def test_turns_that_count_are_refused(tokens: Any) -> None:
    torch.manual_seed(1)
    with pytest.raises(UnsupportedOp, match="reads the value of a tensor"):
        export(Experts(each_turn=0.5).eval(), (tokens,))


def test_what_is_never_left_out_proves_nothing() -> None:
    def every_time(x: torch.Tensor) -> torch.Tensor:
        return x + sum(place.sum() for place in (x == x).nonzero())

    assert not turns_change_nothing(every_time, (torch.ones(2),), {})
    with over_all():
        pass
    assert [place.tolist() for place in torch.tensor([0, 3]).nonzero()] == [[1]]
