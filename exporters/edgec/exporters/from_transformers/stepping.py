"""A causal model of transformers as one module: prefill, decode, verify, sample and reset.

All that a text needs is in buffers of the module, so it becomes state on the device: how many
tokens there are (`position`), which (`tokens`), their keys and values in each layer, and the
scores of the next (`logits`). A call gives one token id back. The buffers of tokens are longer
than the context by the largest chunk: a padded chunk always fits, and what lies behind
`position` counts for nothing. A recurrent model's states are as large for any text; chunks are full
then, and `reset` keeps all that was read or nothing. Of a model that is read anew for each token
nothing is kept but the tokens.
"""

import inspect
from collections.abc import Sequence
from typing import Any

from edgec.exporters.bundle import Bundle, Entry
from edgec.exporters.from_transformers.anew import scores_anew
from edgec.exporters.from_transformers.cache import kept_cache, scores_of
from edgec.exporters.from_transformers.choosing import choose, likeliest
from edgec.exporters.from_transformers.source import Source, source_of
from edgec.runtime.text.facts import (
    DECODE,
    ENCODE,
    PREFILL,
    RESET,
    SAMPLE,
    SAMPLE_ALLOWED,
    VERIFY,
)

__all__ = ["OWNER", "stepping"]

OWNER = "network"
"""What the module calls the model: its weights' names begin with this and a dot."""


def stepping(
    model: Any,
    *,
    context: int,
    prefill: Sequence[int],
    verify: int = 0,
    behind: int | None = None,
) -> Bundle:
    """The functions of a language model, with examples.

    Args:
        model: a `PreTrainedModel` for causal language, in eval mode.
        context: how many tokens a text may have.
        prefill: how many tokens a call takes, for each function that takes several.
        verify: how many tokens a call takes that checks guesses; 0 for no such function.
        behind: the token that stands behind a text which is read anew for each token; None to keep
            what is read.

    Raises:
        UnsupportedOp: its cache is of a kind that is not known; or it is recurrent, and there are
            guesses to check, which it could not take back.
    """
    import torch

    length = context + max(*prefill, verify, 1)
    source = source_of(model, context)
    module = _module(model, context=context, length=length, source=source, behind=behind)
    one = torch.zeros((), dtype=torch.int32)
    numbers = (one + 0.7, one + 40, one + 0.9, one + 0.05, one + 1.1, one)
    return Bundle(
        (
            *(
                Entry(module.encode if each.is_text else module.hear, each.example(), name=ENCODE)
                for each in (source,)
                if each is not None
            ),
            *(
                Entry(
                    module.prefill,
                    (torch.zeros(size, dtype=torch.int32), one + 1),
                    name=PREFILL.format(size=size),
                )
                for size in prefill
            ),
            Entry(module.decode, (one,), name=DECODE),
            *(
                Entry(
                    module.verify,
                    (torch.zeros(size, dtype=torch.int32), one + 1),
                    name=VERIFY.format(size=size),
                )
                for size in (verify,)
                if size
            ),
            Entry(module.sample, numbers, name=SAMPLE),
            Entry(module.sample_allowed, (module.all_allowed(), *numbers), name=SAMPLE_ALLOWED),
            Entry(module.reset, (one,), name=RESET),
        )
    )


def _module(
    model: Any, *, context: int, length: int, source: Source | None, behind: int | None
) -> Any:
    """The model with its text as buffers."""
    import torch

    takes_kept = "logits_to_keep" in inspect.signature(model.forward).parameters
    vocabulary = model.get_output_embeddings().weight.shape[0]

    encoder: Any = source
    bits = torch.tensor([1 << bit for bit in range(31)] + [-(1 << 31)], dtype=torch.int32)

    class Stepping(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("position", torch.zeros((), dtype=torch.int32), persistent=False)
            self.register_buffer("tokens", torch.zeros(length, dtype=torch.int32), persistent=False)
            self.register_buffer("logits", torch.zeros(vocabulary), persistent=False)
            self.last_place = context - 1
            keeping = source.kept_cache if source is not None else kept_cache
            self.cache = keeping(model, self, length) if behind is None else None
            self.states = getattr(self.cache, "states", ())
            self.add_module(OWNER, model)

        def encode(self, tokens: Any, count: Any) -> Any:
            return encoder.keep(self, getattr(self, OWNER), tokens, count)

        def hear(self, features: Any) -> Any:
            one = torch.ones((), dtype=torch.int32)
            return encoder.keep(self, getattr(self, OWNER), features, one)

        def prefill(self, tokens: Any, count: Any) -> Any:
            return self._read(tokens, count)

        def decode(self, token: Any) -> Any:
            return self._read(token.reshape(1), torch.ones((), dtype=torch.int32))

        def verify(self, tokens: Any, count: Any) -> Any:
            size = tokens.shape[0]
            fits = (self.position + count <= context) & (count >= 1) & (count <= size)
            scores = self._scores(tokens, torch.arange(size), count)
            best = likeliest(scores)
            read = torch.ones((), dtype=torch.int32)
            right = fits
            for place in range(1, size):
                right = right & (tokens[place] == best[place - 1]) & (place < count)
                read = read + right.to(torch.int32)
            last = scores.index_select(0, (read - 1).to(torch.int64).reshape(1))[0]
            self.logits.copy_(torch.where(fits, last, self.logits))
            self.position.copy_(torch.where(fits, self.position + read, self.position))
            there = torch.arange(size, dtype=torch.int32) < read
            return torch.where(fits & there, best, -1)

        def sample(
            self,
            temperature: Any,
            top_k: Any,
            top_p: Any,
            min_p: Any,
            repetition_penalty: Any,
            seed: Any,
        ) -> Any:
            return self._drawn(None, temperature, top_k, top_p, min_p, repetition_penalty, seed)

        def sample_allowed(
            self,
            allowed: Any,
            temperature: Any,
            top_k: Any,
            top_p: Any,
            min_p: Any,
            repetition_penalty: Any,
            seed: Any,
        ) -> Any:
            marks = ((allowed[:, None] & bits) != 0).reshape(-1)[:vocabulary]
            return self._drawn(marks, temperature, top_k, top_p, min_p, repetition_penalty, seed)

        def all_allowed(self) -> Any:
            return torch.full((-(-vocabulary // 32),), -1, dtype=torch.int32)

        def _drawn(
            self,
            allowed: Any,
            temperature: Any,
            top_k: Any,
            top_p: Any,
            min_p: Any,
            repetition_penalty: Any,
            seed: Any,
        ) -> Any:
            there = torch.arange(length, dtype=torch.int32) < self.position
            # Those behind the position are put beside the vocabulary.
            places = torch.where(there, self.tokens, vocabulary).to(torch.int64)
            marks = torch.zeros(vocabulary + 1).index_put((places,), torch.ones(length))
            seen = marks[:vocabulary] > 0
            return choose(
                self.logits,
                seen,
                self.position,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repetition_penalty=repetition_penalty,
                seed=seed,
                allowed=allowed,
            )

        def reset(self, position: Any) -> Any:
            kept = position.clamp(min=0).minimum(self.position)
            if self.states:
                kept = torch.where(kept == self.position, kept, 0)
                for name in self.states:
                    state = getattr(self, name)
                    state.copy_(torch.where(kept > 0, state, 0))
            self.position.copy_(kept)
            return self.position.clone()

        def _read(self, tokens: Any, count: Any) -> Any:
            size = tokens.shape[0]
            after = self.position + count
            fits = (after <= context) & (count >= (size if self.states else 1)) & (count <= size)
            before = [getattr(self, name).clone() for name in self.states]
            last = (count - 1).clamp(0, size - 1).to(torch.int64).reshape(1)
            scores = self._scores(tokens, last, count)[0]
            for name, old in zip(self.states, before, strict=True):
                state = getattr(self, name)
                state.copy_(torch.where(fits, state, old))
            self.logits.copy_(torch.where(fits, scores, self.logits))
            self.position.copy_(torch.where(fits, after, self.position))
            return torch.where(fits, likeliest(scores), -1)

        def _scores(self, tokens: Any, kept: Any, count: Any) -> Any:
            """Scores of what follows some of the tokens, which are put behind the text.

            Args:
                tokens: a chunk, of which so many (`count`) are tokens.
                kept: which of them.
            """
            size = tokens.shape[0]
            start = self.position.to(torch.int64).clamp(0, length - size)
            places = torch.arange(size) + start
            self.tokens.index_copy_(0, places, tokens)
            if source is not None:
                after = source.scores(self, getattr(self, OWNER), tokens, places)
                return after.index_select(0, kept)
            if behind is not None:
                there = torch.arange(context) < self.position + count
                whole = torch.where(there, self.tokens[:context], behind)
                asked = places.index_select(0, kept).clamp(max=context - 1)
                return scores_anew(getattr(self, OWNER), whole, asked)
            scores = scores_of(
                getattr(self, OWNER),
                self.cache,
                tokens,
                places,
                kept=kept if takes_kept else None,
            )
            return scores if takes_kept else scores.index_select(0, kept)

    return Stepping().eval()
