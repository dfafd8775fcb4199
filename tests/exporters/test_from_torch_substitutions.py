"""Forward substitutions written as loops over rows, in a few products, compared with PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from edgec.exporters.from_torch.capture import callee, capture

ROWS = 12


def by_sums(a: torch.Tensor, row: int) -> torch.Tensor:
    """As the delta rule is written."""
    before = a[..., row, :row].clone()
    return before + (before.unsqueeze(-1) * a[..., :row, :row].clone()).sum(-2)


def by_products(a: torch.Tensor, row: int) -> torch.Tensor:
    """The same in other words, and subtracted."""
    before = a[..., row : row + 1, :row].clone()
    return (before - before @ a[..., :row, :row].clone())[..., 0, :]


def by_columns(a: torch.Tensor, row: int) -> torch.Tensor:
    """Something else: it adds what the columns come to."""
    before = a[..., row, :row].clone()
    return before + (before.unsqueeze(-2) * a[..., :row, :row].clone()).sum(-1)


def lower(a: torch.Tensor) -> torch.Tensor:
    return -(a @ a).tril(-1)


def with_diagonal(a: torch.Tensor) -> torch.Tensor:
    return -(a @ a).tril()


def looped(turn: Callable[..., torch.Tensor], made: Callable[..., torch.Tensor]) -> Any:
    class Loop(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            a = made(a)
            for row in range(1, ROWS):
                a[..., row, :row] = turn(a, row)
            return a + torch.eye(ROWS)

    return Loop()


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize(
    ("turn", "made", "short"),
    [
        (by_sums, lower, True),
        (by_products, lower, True),
        (by_columns, lower, False),
        (by_sums, with_diagonal, False),
    ],
)
def test_a_loop_is_known_by_what_it_does(
    turn: Callable[..., torch.Tensor], made: Callable[..., torch.Tensor], short: bool
) -> None:
    torch.manual_seed(0)
    a = torch.randn(2, 3, ROWS, ROWS) / 4
    model = looped(turn, made)
    program = capture(callee(model), (a,), {}, None)
    products = sum("matmul" in str(n.target) or "mm" in str(n.target) for n in program.graph.nodes)
    copies = sum("copy" in str(node.target) for node in program.graph.nodes)
    assert (copies == 0) is short
    assert not short or products < 2 * ROWS
    (found,) = program.graph_module(a)
    assert torch.allclose(found, model(a), rtol=1e-4, atol=1e-5)
