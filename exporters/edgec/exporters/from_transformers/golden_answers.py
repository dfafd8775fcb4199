"""What a model with an encoder writes of some sources, as golden calls: encode, then decode.

The model itself decodes greedily, the whole text anew for each token, without a cache.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.exporters.failures import user_errors
from edgec.exporters.from_transformers.golden_text import LENGTH, QUESTIONS, calls_that_read
from edgec.exporters.from_transformers.opening import silent
from edgec.exporters.from_transformers.source import Source
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.text.facts import ENCODE, TextFacts

__all__ = ["golden_answers"]

_SOUNDS = 2
"""Sources of features: seeded noise that fades, as spectra of sound are."""


def golden_answers(source: Source, model: Any, tokenizer: Any, facts: TextFacts) -> Golden:
    """Decode, and give the calls that must give the same tokens.

    Raises:
        ExportError: the model does not run.
    """
    import torch

    calls: list[GoldenCall] = []
    for values, count in _sources(source, tokenizer):
        number = torch.tensor(count)
        with (
            silent(),
            user_errors(type(model).__name__, "run", hint="call model.generate() yourself"),
            torch.no_grad(),
        ):
            given = source.given(torch.from_numpy(values), number)
            states = model.get_encoder()(**given)
            whole, scores = _written(model, given, states, facts)
        inputs: tuple[np.ndarray, ...] = (values,)
        if source.is_text:
            inputs = (values, np.asarray(count, np.int32))
        made = count if source.is_text else states.last_hidden_state.shape[1]
        answer = np.asarray(made, np.int32)
        calls.append(GoldenCall(signature=ENCODE, inputs=inputs, outputs=(answer,)))
        calls += calls_that_read(facts, facts.start, whole, scores, guessed=False)
    return Golden(calls=tuple(calls))


def _sources(source: Source, tokenizer: Any) -> list[tuple[np.ndarray, int]]:
    """Each as `encode` takes it, and how much of it counts."""
    if source.is_text:
        found = []
        for question in QUESTIONS:
            tokens = [int(token) for token in tokenizer(question)["input_ids"]][: source.shape[0]]
            padded = np.zeros(source.shape, np.int32)
            padded[: len(tokens)] = tokens
            found.append((padded, len(tokens)))
        return found
    draw = np.random.default_rng(0)
    fading = np.linspace(1, 0.1, source.shape[-1], dtype=np.float32)
    return [(draw.standard_normal(source.shape, np.float32) * fading, 1) for _ in range(_SOUNDS)]


def _written(
    model: Any, given: dict[str, Any], states: Any, facts: TextFacts
) -> tuple[Sequence[int], np.ndarray]:
    """The text of a source, and the scores behind each of its tokens."""
    import torch

    text = list(facts.start)
    masked = {name: value for name, value in given.items() if name == "attention_mask"}

    def scores() -> np.ndarray:
        found = model(
            encoder_outputs=states,
            decoder_input_ids=torch.tensor([text]),
            use_cache=False,
            **masked,
        )
        return np.asarray(found.logits[0].to(torch.float32))

    for _ in range(min(LENGTH, facts.context - len(text))):
        rows = scores()
        text.append(int(rows[-1].argmax()))
        if text[-1] in facts.stop:
            break
    return text, scores()
