"""What a golden answer may be off by: as far as the framework's own answers move with rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from edgec.exporters import export
from edgec.exporters.conditioning import answers_beside, conditioned, nearby
from edgec.runtime import Golden
from edgec.runtime.comparison import compare


def test_only_floats_are_moved_and_by_their_last_digits() -> None:
    data = [np.full(100, 3.3, np.float32), np.arange(3), np.full(100, 3.3, np.float16)]
    moved = nearby(data)
    assert moved is not None
    single, whole, half = moved
    assert 0 < np.abs(single - data[0]).max() < 3e-6
    assert whole is data[1]
    assert 0 < np.abs(half.astype(np.float32) - data[2]).max() < 1e-2
    assert nearby([np.arange(3)]) is None


def test_short_numbers_are_meant_as_they_are() -> None:
    """Where a function steps, they are not moved over the step."""
    steps = np.array([0.5, 1.5, -2.0, 448.0, np.inf], np.float32)
    assert nearby([steps]) is None
    moved = nearby([np.append(steps, np.float32(0.3))])
    assert moved is not None
    np.testing.assert_array_equal(moved[0][:-1], steps)
    assert moved[0][-1] != np.float32(0.3)


def test_answers_that_are_settled_are_held_to_their_types_tolerance() -> None:
    answer = np.linspace(0, 1, 50, dtype=np.float32)
    call = conditioned([answer], [answer], [[answer * np.float32(1 + 1e-7)]], name="main")
    assert (call.within, call.open) == ((), ())


def test_answers_that_hide_how_far_they_are_settled_are_asked_for_again() -> None:
    """The best of nearly equal numbers, as a 1 among zeros, is another one now and then."""
    x = np.linspace(0, 1, 50, dtype=np.float32)
    one, other = np.eye(2, 9, dtype=np.float32)
    comes = iter([one, one, other, one])
    others = answers_beside(lambda given: [next(comes), given[0] * 2], [x], [one, x * 2])
    assert len(others) == 3
    sharp, plain = conditioned([x], [one, x * 2], others, name="main").within or (0, 0)
    assert sharp >= 1
    assert plain == 0
    always = [x.sum(keepdims=True) * 0]
    assert len(answers_beside(lambda _: always, [x], always)) == 5
    assert len(answers_beside(lambda given: [given[0] * 2], [x], [x * 2])) == 1
    assert answers_beside(lambda _: always, [np.arange(4)], always) == []


def test_a_tie_between_indices_is_open_and_no_other_index() -> None:
    call = conditioned([], [np.array([4, 7, 2])], [[np.array([4, 3, 2])]], name="main")
    (mask,) = call.open
    assert mask.tolist() == [False, True, False]
    assert compare(np.array([4, 3, 2]), np.array([4, 7, 2]), open_=mask).ok
    assert not compare(np.array([5, 3, 2]), np.array([4, 7, 2]), open_=mask).ok


def test_a_choice_that_rounding_decides_is_said_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Choosing(nn.Module):
        """Of three rows of nearly the same sum, the largest."""

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            best = (x * 1e-7 + 1).sum(1).argmax()
            return best, x.roll(1, 1).index_select(0, best.reshape(1))

    x = torch.zeros(3, 64)
    x[2] = torch.linspace(0, 0.5, 64)
    x[1] = torch.linspace(0, 0.45, 64)
    program = export(Choosing(), (x,))
    assert program.golden is not None
    (call,) = program.golden.calls
    assert (int(call.outputs[0]), call.open[0].all()) == (0, True)  # in 64 bits it is the last
    assert "proves little" in caplog.text
    program.golden.save(tmp_path / "golden.npz")
    (kept,) = Golden.load(tmp_path / "golden.npz").calls
    assert kept.open[0].all()
    assert kept.within == call.within
