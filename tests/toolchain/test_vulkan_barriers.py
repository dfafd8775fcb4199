"""Kernels that share memory between threads are right on Vulkan."""

import numpy as np
import pytest
import torch
from torch import nn

from edgec import runtime, toolchain
from edgec.exporters import export


class NormThenAttention(nn.Module):
    """The first half of a transformer layer with the norm in front, as in ViT and GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0]


@pytest.mark.vulkan
def test_a_norm_before_attention_gives_the_same_right_answer_each_time() -> None:
    torch.manual_seed(0)
    model = NormThenAttention().eval()
    x = torch.randn(2, 17, 32)
    program = export(model, (x,))
    module = toolchain.compile(program, "vulkan", toolchain.CompileOptions(check=False))
    with runtime.load(module) as loaded, torch.no_grad():
        for _ in range(3):
            np.testing.assert_allclose(loaded.main(x.numpy()), model(x).numpy(), atol=1e-4)
