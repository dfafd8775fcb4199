"""Scores of the next token to a token: penalty, temperature, top-k, top-p, min-p, and a draw.

Nothing is sorted: the score that the k best, or the best of a probability, do not fall below is
found by halving. The draw is the largest of the scores with Gumbel noise, whose bits are a hash
of seed, position and token; equal ones give the same text on every device.
"""

from typing import Any

__all__ = ["choose", "likeliest"]

_HALVINGS = 32
"""The best and the worst score are this many halvings apart from a score that stands alone."""
_LOW = -1e30
"""A score that is never the largest."""
_START = 0x3C6EF372
"""The hash of 0 is 0, and 0 is the usual seed."""


def likeliest(scores: Any) -> Any:
    """The first of the tokens with the largest score, as i32."""
    import torch

    return scores.argmax(-1).to(torch.int32)


def choose(
    scores: Any,
    seen: Any,
    position: Any,
    *,
    temperature: Any,
    top_k: Any,
    top_p: Any,
    min_p: Any,
    repetition_penalty: Any,
    seed: Any,
    allowed: Any = None,
) -> Any:
    """The next token, as i32.

    Args:
        scores: f32[tokens].
        seen: which tokens are in the text already.
        position: i32, how many tokens the text has.
        temperature, top_k, top_p, min_p, repetition_penalty, seed: as `Sampling` has them, each a
            tensor without axes.
        allowed: among which tokens, one of them at least; None for all.
    """
    import torch

    count = scores.shape[0]
    punished = torch.where(scores < 0, scores * repetition_penalty, scores / repetition_penalty)
    scores = torch.where(seen, punished, scores)
    if allowed is not None:
        scores = torch.where(allowed, scores, _LOW)
    scaled = scores / temperature.clamp(min=1e-6)
    best = scaled.max()
    # A probability below 1e-30 of the best is as good as none, and a range without end has no half.
    scaled = (scaled - best).clamp(min=-69.0)

    wanted = torch.where(top_k > 0, top_k, count).clamp(max=count).to(torch.float32)
    floor = _threshold(scaled, torch.ones_like(scaled), wanted)
    scaled = torch.where(scaled >= floor, scaled, _LOW)

    weights = scaled.exp()
    floor = _threshold(scaled, weights, top_p * weights.sum())
    # All that is left has a probability of 1, up to rounding.
    scaled = torch.where((scaled >= floor) | (top_p >= 1), scaled, _LOW)
    scaled = torch.where(weights >= min_p, scaled, _LOW)
    if allowed is not None:
        scaled = torch.where(allowed, scaled, _LOW)

    drawn = likeliest(scaled + _gumbel(count, seed, position))
    return torch.where(temperature > 0, drawn, likeliest(scores))


def _threshold(scores: Any, weights: Any, wanted: Any) -> Any:
    """The largest score such that those not below it together weigh at least `wanted`."""
    import torch

    low, high = torch.full((), -70.0), torch.full((), 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) * 0.5
        enough = torch.where(scores >= middle, weights, 0.0).sum() >= wanted
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    return low


def _gumbel(count: int, seed: Any, position: Any) -> Any:
    """Noise for each token, of seed and position: -log(-log(u)), u evenly in (0, 1)."""
    import torch

    numbers = torch.arange(count, dtype=torch.int32)
    bits = _mixed(numbers + _mixed(position + _mixed(seed + _START)))
    even = (((bits >> 8) & 0xFFFFFF).to(torch.float32) + 0.5) * (1 / (1 << 24))
    return -(-even.log()).log()


def _mixed(bits: Any) -> Any:
    """A hash of 32 bits in which every bit changes about half of the others."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        bits = (bits ^ _shifted(bits, shift)) * factor
    return bits ^ _shifted(bits, 15)


def _shifted(bits: Any, by: int) -> Any:
    """To the right, zeros coming in."""
    return (bits >> by) & ((1 << (32 - by)) - 1)
