"""Choosing a token agrees with transformers' own rules, and draws as often as it should."""

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from edgec.exporters.from_transformers.choosing import choose

COUNT = 50
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
KINDS = {"top_k": torch.int32}


def _drawn(
    scores: torch.Tensor,
    seen: list[int],
    times: int,
    *,
    allowed: torch.Tensor | None = None,
    **settings: float,
) -> np.ndarray:
    """How often each token is drawn, one seed after the other."""
    marked = torch.zeros(COUNT, dtype=torch.bool)
    marked[seen] = True
    given = {
        name: torch.tensor(value, dtype=KINDS.get(name, torch.float32))
        for name, value in {**PLAIN, **settings}.items()
    }
    position = torch.tensor(9, dtype=torch.int32)
    found = [
        int(
            choose(
                scores,
                marked,
                position,
                seed=torch.tensor(s, dtype=torch.int32),
                allowed=allowed,
                **given,
            )
        )
        for s in range(times)
    ]
    return np.bincount(found, minlength=COUNT)


def _allowed(scores: torch.Tensor, seen: list[int], **settings: float) -> np.ndarray:
    """The probabilities that transformers gives."""
    wanted = {**PLAIN, **settings}
    rules = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(float(wanted["repetition_penalty"])),
            TemperatureLogitsWarper(float(wanted["temperature"])),
        ]
    )
    if wanted["top_k"]:
        rules.append(TopKLogitsWarper(int(wanted["top_k"])))
    if wanted["top_p"] < 1:
        rules.append(TopPLogitsWarper(float(wanted["top_p"])))
    if wanted["min_p"]:
        rules.append(MinPLogitsWarper(float(wanted["min_p"])))
    changed = rules(torch.tensor([seen], dtype=torch.int64), scores[None].clone())
    return changed.softmax(-1)[0].numpy()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"temperature": 0.6}, marks=pytest.mark.slow),
        pytest.param({"top_k": 7}, marks=pytest.mark.slow),
        pytest.param({"top_p": 0.8}, marks=pytest.mark.slow),
        pytest.param({"min_p": 0.1}, marks=pytest.mark.slow),
        pytest.param({"repetition_penalty": 1.5}, marks=pytest.mark.slow),
        {"temperature": 1.4, "top_k": 20, "top_p": 0.9, "min_p": 0.03, "repetition_penalty": 1.2},
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_transformers_would(settings: dict[str, float]) -> None:
    scores = torch.randn(COUNT, generator=torch.Generator().manual_seed(3)) * 2
    seen, times = [4, 9, 17, 17, 30], 1500
    expected = _allowed(scores, seen, **settings)
    drawn = _drawn(scores, seen, times, **settings)
    assert not drawn[expected == 0].any()
    # Five standard deviations of a count.
    deviation = np.sqrt(times * expected * (1 - expected))
    assert (np.abs(drawn - times * expected) <= 5 * deviation + 1).all()


def test_without_a_temperature_it_is_the_best_after_the_penalty() -> None:
    scores = torch.zeros(COUNT)
    scores[3], scores[8] = 2.0, 1.9
    assert _drawn(scores, [], 3, temperature=0.0)[3] == 3
    assert _drawn(scores, [3], 3, temperature=0.0, repetition_penalty=1.2)[8] == 3


def test_only_what_is_allowed_is_drawn_as_if_there_were_no_others() -> None:
    settings = {"temperature": 1.4, "top_k": 12, "top_p": 0.9}
    scores = torch.randn(COUNT, generator=torch.Generator().manual_seed(3)) * 2
    allowed = torch.arange(COUNT) % 3 == 0
    times = 1500
    expected = _allowed(scores.masked_fill(~allowed, -torch.inf), [4], **settings)
    drawn = _drawn(scores, [4], times, allowed=allowed, **settings)
    assert not drawn[expected == 0].any()
    deviation = np.sqrt(times * expected * (1 - expected))
    assert (np.abs(drawn - times * expected) <= 5 * deviation + 1).all()


def test_one_seed_draws_one_token_and_others_differ() -> None:
    scores = torch.zeros(COUNT)
    assert (_drawn(scores, [], 40) == _drawn(scores, [], 40)).all()
    assert (_drawn(scores, [], 40) > 0).sum() > 15
