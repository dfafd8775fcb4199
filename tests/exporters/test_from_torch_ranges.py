"""Ranges from a tensor to another that is so many more, compared with PyTorch."""

import torch

from edgec.exporters.from_torch.capture import callee, capture
from edgec.exporters.from_torch.ranges import known_ranges


def places(x: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As decoders write it that ask a cache for its length."""
    past = past.to(torch.int64)
    behind = torch.arange(1 + past, 2 + past + x.shape[0], dtype=torch.float32)
    return torch.arange(past, past + x.shape[0]) * x, behind


def test_a_range_is_as_long_as_is_added_to_its_start() -> None:
    inputs = (torch.randn(4), torch.tensor(5, dtype=torch.int32))
    program = capture(callee(places), inputs, {}, None)
    for past in (0, 5, 30):
        given = (inputs[0], torch.tensor(past, dtype=torch.int32))
        for found, right in zip(program.graph_module(*given), places(*given), strict=True):
            assert found.dtype == right.dtype
            assert torch.equal(found, right)


def test_other_ranges_are_left_alone() -> None:
    three, five = torch.tensor(3), torch.tensor(5)
    with known_ranges():
        assert torch.arange(three, five).tolist() == [3, 4]
        assert torch.arange(three + 2, five + 1).tolist() == [5]
        assert torch.arange(three, three - 0 + 1).tolist() == [3]
        assert torch.arange(2.5, 4).tolist() == [2.5, 3.5]
