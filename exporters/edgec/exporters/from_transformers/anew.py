"""A model of which nothing is kept between tokens: each call reads the whole text.

So a token costs as much as a text of the whole context. It is what transformers itself does with a
model that has no cache, and what is left where a cache is of a kind that edgec does not know. The
text that is read has one size, so the model must not look at what stands behind a token.
"""

import inspect
from typing import Any

__all__ = ["scores_anew", "token_behind"]

_SIZES, _LENGTH = (1, 3, 6, 10), 16
"""Of the texts by which it is tried whether a model looks behind a token, and of what is read."""


def token_behind(model: Any) -> int | None:
    """A token that may stand behind a text and changes no score in it; None if there is none.

    Some models count tokens that are not 0, so others are tried, too.
    """
    import torch

    rows = int(model.get_input_embeddings().weight.shape[0])
    texts = [(torch.arange(size) * 37 + 7 * size + 1) % rows for size in _SIZES]
    tried = dict.fromkeys((0, 1 % rows, rows - 1))
    return next((token for token in tried if all(_is_unseen(model, t, token) for t in texts)), None)


def _is_unseen(model: Any, text: Any, behind: int) -> bool:
    """Whether all scores of a text are the same where a token stands behind it, many times."""
    import torch

    places = torch.arange(len(text))
    longer = torch.cat([text, torch.full((_LENGTH - len(text),), behind)])
    try:
        with torch.no_grad():
            alone, beside = (scores_anew(model, each, places) for each in (text, longer))
    except Exception:  # noqa: BLE001 - models raise errors of every kind
        return False
    # What rounding leaves, and no more: untrained weights may look behind a token but little.
    rounding = 1e-5 * float(alone.abs().max())
    return bool(alone.isfinite().all()) and float((alone - beside).abs().max()) <= rounding


def scores_anew(model: Any, tokens: Any, kept: Any) -> Any:
    """Scores of what follows some of a text's tokens, by their places; without a cache."""
    import torch

    known = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
    narrow = "logits_to_keep" in known
    if narrow:
        given["logits_to_keep"] = kept
    scores = model(input_ids=tokens.to(torch.int64)[None], **given).logits[0]
    return scores if narrow else scores.index_select(0, kept)
