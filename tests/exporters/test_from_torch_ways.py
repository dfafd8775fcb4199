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
