"""Models of halves: their answers are summed in f32, and are rounded as halves are."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from edgec import exporters
from edgec.runtime.errors import EdgecError


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.linear = nn.Linear(8 * 6 * 6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.convolution(x))
        return self.linear(y.flatten(1)) @ torch.ones(5, 5, dtype=x.dtype)


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[str, set[torch.dtype]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        computed = {value.dtype for value in args if type(value) is torch.Tensor}
        self.kinds.setdefault(function.name(), set()).update(computed)
        return function(*args, **(kwargs or {}))


def test_sums_are_made_in_f32_and_rounded_once() -> None:
    torch.manual_seed(0)
    model, x = Layers().eval().half(), torch.randn(2, 3, 8, 8).half()
    with Seen() as seen:
        program = exporters.export(model, (x,))
    assert seen.kinds["aten::convolution"] == {torch.float32}
    (call,) = program.golden.calls
    (answer,) = call.outputs
    assert answer.dtype == np.float16
    with torch.no_grad():
        exact = model.double()(x.double()).numpy()
    np.testing.assert_allclose(answer, exact, rtol=2e-3, atol=2e-3)


def test_a_model_that_mixes_types_is_refused_as_pytorch_does() -> None:
    model = nn.Conv2d(3, 8, 3).half()
    with pytest.raises(EdgecError, match="type"):
        exporters.export(model, (torch.randn(1, 3, 8, 8),))
