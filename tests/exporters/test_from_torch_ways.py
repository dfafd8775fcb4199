"""PyTorch models that take another way when they are traced than when they are run."""

import torch
from torch import nn

from edgec.exporters import export


class Asking(nn.Module):
    """Makes the mask that it needs in eager mode alone."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.arange(x.shape[0])
        return x * mask[None, :]  # type: ignore[index]


def test_a_model_that_fails_only_while_it_is_traced_is_traced_as_it_runs(replay) -> None:
    program = export(Asking(), (torch.ones(3),))
    assert program.golden is not None
    assert program.golden.calls[0].outputs[0].tolist() == [[0, 1, 2]]
    assert replay(program) == 0
    assert not torch.compiler.is_compiling()


class Settling(nn.Module):
    """Moves a layer where it is already."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer = self.layer.to(torch.float32)
        return self.layer.to(x.device)(x)


def test_a_layer_that_is_moved_where_it_is_stays(replay) -> None:
    model = Settling()
    assert replay(export(model, (torch.randn(1, 3),))) <= 1e-5
    assert model.layer.to(torch.float64).weight.dtype is torch.float64
