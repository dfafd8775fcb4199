"""Functions as PyTorch's modules, and tensors drawn by a seed, for the exporter's tests."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["Of", "randn"]


class Of(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: torch.Tensor) -> Any:
        return self.function(*values)


def randn(seed: int, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)
