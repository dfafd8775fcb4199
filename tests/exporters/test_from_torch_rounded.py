"""Answers that are rounding alone: what the check of a module allows, and what it still finds."""

import numpy as np
import pytest
import torch

from edgec.exporters import export
from edgec.exporters.from_torch.rounded import rounding
from edgec.runtime.comparison import compare_call
from edgec.runtime.conditioning import apart


class Step(torch.nn.Module):
    """What softmax gives back: 0 in exact arithmetic, along each row; and a plain answer."""

    def forward(self, scores: torch.Tensor, slopes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shares = torch.softmax(scores, -1)
        back = shares * (slopes - (shares * slopes).sum(-1, keepdim=True))
        return back.sum(-1), shares @ slopes.T


@pytest.fixture(scope="module")
def inputs() -> tuple[torch.Tensor, ...]:
    random = np.random.default_rng(0)
    return tuple(
        torch.from_numpy(random.standard_normal((24, 200)).astype(np.float32)) for _ in range(2)
    )


def _in_another_order(scores: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The first answer in f32, one term after the other, as a processor without vectors adds."""
    powers = np.exp(scores)
    shares = powers / np.cumsum(powers, -1, dtype=np.float32)[:, -1:]
    mean = np.cumsum(shares * slopes, -1, dtype=np.float32)[:, -1:]
    return np.asarray(np.cumsum(shares * (slopes - mean), -1, dtype=np.float32)[:, -1])


def test_rounding_in_another_order_is_no_fault_and_a_fault_is_one(
    inputs: tuple[torch.Tensor, ...],
) -> None:
    call = export(Step(), inputs).golden.calls[0]
    nothing, plain = call.outputs
    other = _in_another_order(*(value.numpy() for value in inputs))
    assert np.abs(other - nothing).max() > 5e-4 * np.abs(nothing).max()  # as zeros they are far off
    assert all(found.ok for found in compare_call(call, (other, plain)))
    with rounding(1):
        rounded = Step()(*inputs)[0].numpy()
    assert call.within[0] >= apart(nothing, [rounded]) > 0
    # A term left out of one row, and a plain answer off as any other may not be.
    terms = np.abs(inputs[1].numpy()).mean() / 200
    wrong = other.copy()
    wrong[3] += terms / 100
    assert not compare_call(call, (wrong, plain))[0].ok
    off = plain + 2e-3 * plain.std()
    assert not compare_call(call, (other, off))[1].ok
    assert call.within[1] == 0


def test_values_are_moved_by_rounding_and_whole_ones_views_and_inputs_are_not(
    inputs: tuple[torch.Tensor, ...],
) -> None:
    before = inputs[0].clone()
    with rounding(0):
        moved = inputs[0] * 3
        whole = torch.arange(8.0) * 2
        seen = inputs[0].T[1:]
    far = (moved - before * 3).abs() / (before * 3).abs()
    assert 1e-8 < float(far.max()) < 5e-7
    assert torch.equal(whole, torch.arange(0.0, 16, 2))
    assert torch.equal(seen, before.T[1:])
    assert torch.equal(inputs[0], before)


def test_the_mean_of_a_norm_moves_all_that_it_is_taken_from_the_same_way() -> None:
    random = np.random.default_rng(0)
    image = torch.from_numpy(random.normal(1, 0.01, (4, 3, 64, 64)).astype(np.float32))
    norm = torch.ops.aten._native_batch_norm_legit_functional.default
    found = []
    for seed in range(2):
        with rounding(seed):
            made = norm(image, None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-9)
        found.append(made[0].double().mean((0, 2, 3)))
    # A unit of the last place of a mean of 1 is 1e-5 of a deviation of 0.01.
    assert 1e-6 < float((found[0] - found[1]).abs().max()) < 1e-4


def test_a_sum_is_moved_by_the_last_place_of_its_terms_sizes() -> None:
    terms = torch.tensor([1000.0, -1000.0] * 50)
    with rounding(0):
        total, mean = terms.sum(), terms.mean()
    assert 0 < abs(float(total)) <= 2.0**-23 * 100_000
    assert 0 < abs(float(mean)) <= 2.0**-23 * 1000
