"""Seeded weights with which a small language model writes many different tokens.

Weights as a library draws them often write one token over and over, which proves little. So what is
all alike (biases of zeros, norms of ones, a router that likes all experts alike) is drawn, too, and
tables of tokens and places are made smaller, so that what layers add to a token counts beside it.
Of some such changes the first is taken with which the library itself writes enough tokens, or the
one with the most.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["ENOUGH", "telling", "tokens_of"]

ENOUGH = 32
"""Different tokens in the two texts."""

_LENGTH = 48
_TEXTS = ("What is the capital of France?", "Write a short poem about the sea at night.")
_CHANGES = ((1, 1), (1 / 4, 1), (1 / 16, 1), (1 / 4, 2), (1 / 16, 2))
"""Factors of tables that rows are looked up in, and of other matrices; the mildest first."""
_ALIKE = (1, 1 / 10, 3)
"""The same of what is drawn around numbers that are all alike: much of it, and a text is of the few
tokens that it likes."""


def telling(made: Callable[[], Any], *, spread: float) -> Any:
    """The model, of those with changed weights, that writes the most tokens.

    Args:
        made: makes the model, with the same weights each time.
        spread: the standard deviation of what is drawn.

    Raises:
        Exception: what the library raises, if none writes.
    """
    best, most = None, 0
    problem: Exception | None = None
    for alike, (tables, others) in itertools.product(_ALIKE, _CHANGES):
        model = made()
        _change(model, tables, others, alike=alike * spread, spread=spread)
        try:
            found = len(tokens_of(model))
        except Exception as error:  # noqa: BLE001 - a model may not bear some numbers; others may
            problem = problem or error
            continue
        if found > most:
            best, most = model, found
        if found >= ENOUGH:
            break
    if best is None:
        raise problem or ValueError("it writes nothing")
    return best


def tokens_of(model: Any) -> set[int]:
    """The different tokens in two texts that the library writes greedily."""
    import torch

    found: set[int] = set()
    for text in _TEXTS:
        given = torch.tensor([list(text.encode())])
        with torch.no_grad():
            whole: Sequence[int] = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=_LENGTH,
                do_sample=False,
            )[0].tolist()
        found |= {*whole[given.shape[1] :]}
    return found


def _change(model: Any, tables: float, others: float, *, alike: float, spread: float) -> None:
    import torch

    torch.manual_seed(1)
    lookups = {id(part.weight) for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    with torch.no_grad():
        for value in model.state_dict(keep_vars=True).values():
            if not value.is_floating_point() or value.numel() < 2:
                continue
            if bool((value == value.flatten()[0]).all()):
                # Of a router of zeros, which experts it takes would be left open.
                value += torch.randn_like(value) * (alike if value.ndim == 1 else spread)
            elif id(value) in lookups:
                value *= tables
            elif value.ndim > 1:
                value *= others
