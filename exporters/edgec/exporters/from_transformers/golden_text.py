"""What the model itself writes, token by token, as golden calls of prefill, decode and verify.

transformers generates greedily with its own growing cache. The calls repeat that: each is given
the tokens that transformers chose, and has to choose the next one as it did. Where the model's
best scores are no further apart than the tolerance of its own floats, any of them is right. Where
there is a function for guesses, it reads the last question's answer, right guesses and wrong ones.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from edgec.exporters.failures import user_errors
from edgec.exporters.from_transformers.opening import silent
from edgec.runtime.dtypes import DType
from edgec.runtime.golden import Golden, GoldenCall
from edgec.runtime.text.facts import DECODE, PREFILL, RESET, VERIFY, TextFacts
from edgec.runtime.text.template import render
from edgec.runtime.tolerance import Tolerance

__all__ = ["LENGTH", "QUESTIONS", "calls_that_read", "golden_text"]

LENGTH = 64
"""Tokens that the model writes for each question."""

QUESTIONS = (
    "What is the capital of France?",
    "Write a short poem about the sea at night.",
    "Explain in simple words how a bicycle stays upright, why it is easier to balance when it is "
    "moving than when it stands still, and what somebody who has never ridden one should try "
    "first. Mention the wheels, the handlebar, the rider's weight and the speed, and give one "
    "example for each of them. End with a sentence that a child of six would understand.",
)
"""What the model is asked; the last is longer than a usual chunk."""


def golden_text(model: Any, tokenizer: Any, facts: TextFacts) -> Golden:
    """Generate, and give the calls that must give the same tokens.

    Raises:
        ExportError: the model does not generate.
    """
    prompts = [_prompt(tokenizer, facts, question) for question in QUESTIONS]
    calls: list[GoldenCall] = []
    with silent(), user_errors(type(model).__name__, "run", hint="call model.generate() yourself"):
        answers = _generated(model, facts, prompts)
        for prompt, whole in zip(prompts, answers, strict=True):
            scores = _scores(model, whole)
            if not _is_greedy(prompt, whole, scores):  # what stands beside a text moves it
                (whole,) = _generated(model, facts, [prompt])
                scores = _scores(model, whole)
            last = prompt is prompts[-1]
            calls += calls_that_read(facts, prompt, whole, scores, guessed=last)
        called = {call.signature for call in calls}
        text = [token for whole in answers for token in whole]
        for size in facts.prefill:
            if PREFILL.format(size=size) not in called:
                calls += _calls_that_fill(model, facts, size, text)
    return Golden(calls=tuple(calls))


def _prompt(tokenizer: Any, facts: TextFacts, question: str) -> list[int]:
    """The tokens of a question, as many as leave room for an answer."""
    return _tokens(tokenizer, facts, question)[: max(1, facts.context - LENGTH)]


def _is_greedy(prompt: Sequence[int], whole: Sequence[int], scores: np.ndarray) -> bool:
    """Whether each token of an answer is one of the best by the scores of this text alone."""
    return all(whole[end] in _tied(scores[end - 1]) for end in range(len(prompt), len(whole)))


def _tokens(tokenizer: Any, facts: TextFacts, question: str) -> list[int]:
    """The tokens of a question, as an app would ask it."""
    if not facts.template:
        return [int(token) for token in tokenizer(question)["input_ids"]]
    text = render(facts.template, [{"role": "user", "content": question}], facts.special)
    return [int(token) for token in tokenizer(text, add_special_tokens=False)["input_ids"]]


def _generated(model: Any, facts: TextFacts, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Each prompt and what the model writes after it, as transformers does it.

    All are written together, since a token takes as long as reading all weights.
    """
    import torch
    from transformers import GenerationConfig

    longest = max(map(len, prompts))
    fill = facts.stop[0] if facts.stop else 0
    given = torch.full((len(prompts), longest), fill)
    there = torch.zeros_like(given)
    for row, prompt in enumerate(prompts):
        given[row, longest - len(prompt) :] = torch.tensor(list(prompt))
        there[row, longest - len(prompt) :] = 1
    counts = [min(LENGTH, facts.context - len(prompt)) for prompt in prompts]
    if max(counts) < 1:
        return [list(prompt) for prompt in prompts]
    # Nothing of what the model's own settings ask for beside the best token.
    plain = GenerationConfig(
        max_new_tokens=max(counts),
        do_sample=False,
        eos_token_id=list(facts.stop) or None,
        pad_token_id=fill,
    )
    with torch.no_grad():
        found = model.generate(given, attention_mask=there, generation_config=plain)
    return [
        [*prompt, *_until_stop(facts, [int(token) for token in row[longest:]][: max(0, count)])]
        for prompt, row, count in zip(prompts, found, counts, strict=True)
    ]


def _until_stop(facts: TextFacts, tokens: Sequence[int]) -> list[int]:
    """An answer up to the token that ends it, which is its last."""
    ends = (at + 1 for at, token in enumerate(tokens) if token in facts.stop)
    return list(tokens[: next(ends, len(tokens))])


def _scores(model: Any, tokens: Sequence[int]) -> np.ndarray:
    """The scores of the token after each, in one pass without a cache."""
    import torch

    with torch.no_grad():
        found = model(torch.tensor([list(tokens)]), use_cache=False).logits[0]
    return np.asarray(found.to(torch.float32))


def calls_that_read(
    facts: TextFacts,
    prompt: Sequence[int],
    whole: Sequence[int],
    scores: np.ndarray,
    *,
    guessed: bool,
) -> Iterator[GoldenCall]:
    """The calls that read `whole`: the prompt in chunks, the rest token by token, or guessed."""
    zero = np.zeros((), np.int32)
    yield GoldenCall(signature=RESET, inputs=(zero,), outputs=(zero,))
    start = 0
    while start < len(prompt):
        size = facts.chunk(len(prompt) - start)
        if size == 1 and not facts.recurrent:
            size = facts.prefill[0]  # so that it is called, too
        part = prompt[start : start + size]
        start += len(part)
        inputs: tuple[np.ndarray, ...] = (np.asarray(part[0], np.int32),)
        if size > 1:
            chunk = np.zeros(size, np.int32)
            chunk[: len(part)] = part
            inputs = (chunk, np.asarray(len(part), np.int32))
        name = PREFILL.format(size=size) if size > 1 else DECODE
        yield _call(name, inputs, start, prompt, whole, scores)
    start = len(prompt)
    while guessed and facts.verify and start + facts.verify < len(whole):
        found = _guessed(facts, start, whole, scores)
        if found is None:
            break
        call, read = found
        yield call
        start += read
    for end in range(start + 1, len(whole)):
        token = np.asarray(whole[end - 1], np.int32)
        yield _call(DECODE, (token,), end, prompt, whole, scores)


def _calls_that_fill(
    model: Any, facts: TextFacts, size: int, text: Sequence[int]
) -> Iterator[GoldenCall]:
    """The call that reads one full chunk, of a text over and over; it forgets all others before."""
    count = min(size, facts.context)
    chunk = np.zeros(size, np.int32)
    chunk[:count] = np.resize(np.asarray(text, np.int32), count)
    tokens = chunk[:count].tolist()
    zero = np.zeros((), np.int32)
    yield GoldenCall(signature=RESET, inputs=(zero,), outputs=(zero,))
    inputs = (chunk, np.asarray(count, np.int32))
    scores = _scores(model, tokens)
    yield _call(PREFILL.format(size=size), inputs, count, tokens, tokens, scores)


def _guessed(
    facts: TextFacts, start: int, whole: Sequence[int], scores: np.ndarray
) -> tuple[GoldenCall, int] | None:
    """A call that is given the text from a place on, one token of which is wrong now and then.

    Returns:
        The call, and how many tokens it reads; None where a tie leaves that open.
    """
    size = facts.verify
    if any(len(_tied(scores[start + at])) > 1 for at in range(size)):
        return None
    chunk, right = np.array(whole[start : start + size], np.int32), size
    if start % 2:  # the right number of them differs from call to call
        right = 1 + start // 2 % (size - 1)
        chunk[right] = (chunk[right] + 1) % facts.vocabulary
    best = np.array(whole[start + 1 : start + size + 1], np.int32)
    best[right:] = -1
    inputs = (chunk, np.asarray(size, np.int32))
    call = GoldenCall(signature=VERIFY.format(size=size), inputs=inputs, outputs=(best,))
    return call, right


def _call(
    name: str,
    inputs: tuple[np.ndarray, ...],
    end: int,
    prompt: Sequence[int],
    whole: Sequence[int],
    scores: np.ndarray,
) -> GoldenCall:
    """A call after which `end` tokens are read."""
    row = scores[end - 1]
    best = int(whole[end]) if len(prompt) <= end < len(whole) else int(row.argmax())
    tied = [token for token in _tied(row) if token != best]
    others = np.asarray(tied, np.int32).reshape(len(tied))
    return GoldenCall(
        signature=name,
        inputs=inputs,
        outputs=(np.asarray(best, np.int32),),
        others=(others,) if tied else (),
    )


def _tied(row: np.ndarray) -> list[int]:
    """The tokens whose scores are the largest, up to what two scores may be off by together."""
    absolute, relative = Tolerance.of(DType.F32).limits(row)
    largest = float(row.max())
    least = largest - 2 * (absolute + relative * abs(largest))
    return [int(token) for token in np.flatnonzero(row >= least)]
