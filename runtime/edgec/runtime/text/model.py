"""A module with a language model in it: prompts and conversations to text."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from edgec.runtime.closing import Closing
from edgec.runtime.device import Device
from edgec.runtime.errors import InputError, ModuleError
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.text.answer import Answer
from edgec.runtime.text.answering import Asked, written
from edgec.runtime.text.constraint import Constraint
from edgec.runtime.text.facts import TextFacts
from edgec.runtime.text.reading import Reader
from edgec.runtime.text.sampling import Sampling
from edgec.runtime.text.sliding import SINKS, WhenFull, window
from edgec.runtime.text.template import Message, render
from edgec.runtime.text.tokenizer import Tokenizer, check_text

__all__ = ["TextModel"]

_GREEDY = Sampling()


class TextModel(Closing):
    """A language model on a device, and the tokens that it has read.

    What two prompts begin with alike is read once: a conversation that goes on costs its new
    messages alone. An answer is made while it is read; a new prompt ends the answer before it.
    One thread at a time.

    Attributes:
        module: the loaded module.
        facts: its context, tokenizer and template.
    """

    def __init__(
        self,
        path: Path | str | LoadedModule,
        *,
        device: str | Device | None = None,
        weights: Path | str | None = None,
        key: Path | str | bytes | None = None,
    ) -> None:
        """Load a module, as `edgec.runtime.load` does.

        Raises:
            ModuleError: it holds no language model.
            And what `load` raises.
        """
        self.module = (
            path
            if isinstance(path, LoadedModule)
            else load(path, device=device, weights=weights, key=key)
        )
        file = self.module.module
        if not file.text:
            raise ModuleError(
                f"{file.path} holds no language model that edgec exported",
                hint="export one: edgec export hf:FOLDER, or edgec export MODEL.gguf",
            )
        self.facts = TextFacts.parse(file.text)
        self._reader = Reader(self.module, self.facts)
        self._turn = 0

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What makes tokens of text.

        Raises:
            MissingExtra: `tokenizers` is not installed.
            ModuleError: it is damaged.
        """
        return Tokenizer(self.facts.tokenizer)

    @property
    def known(self) -> tuple[int, ...]:
        """The tokens that the module has read: the last prompt and its answer."""
        return tuple(self._reader.held)

    def generate(
        self,
        prompt: str | Sequence[int] | np.ndarray,
        *,
        sampling: Sampling = _GREEDY,
        limit: int | None = None,
        when_full: WhenFull = WhenFull.STOP,
        keep: int = SINKS,
        speculate: bool = True,
        start: Sequence[int] = (),
        constraint: Constraint | None = None,
    ) -> Answer:
        """Go on with a text.

        Args:
            prompt: text, or tokens. A model with an encoder reads it first (text, tokens, or
                features of sound as its feature extractor makes them, f32[features, frames]),
                and begins a text about it.
            start: what such a text begins with, in place of what the model begins with.
            sampling: how tokens are chosen; the likeliest ones without it.
            limit: the most tokens that are made; None for as many as the context holds, or, where
                it slides, until the model ends.
            when_full: what becomes of a text that outgrows the context.
            keep: how many tokens at the text's beginning stay when it slides.
            speculate: where the module can (`edgec export --speculate`), read what followed the
                same words before along with a token; the text is the same, and sooner there.
            constraint: what the answer has to be: each token is chosen among those that it allows.
                Nothing is guessed then.

        Raises:
            InputError: the prompt is empty, too long, or holds tokens that there are not, or the
                constraint cannot be followed.
            MissingExtra: `tokenizers` is not installed.
        """
        if self.facts.source:
            self._reader.encode(self._source(prompt))
            tokens = [int(token) for token in start or self.facts.start]
        else:
            tokens = self._tokens(prompt)
        whole = tokens
        if when_full is WhenFull.SLIDE:
            whole = window(tokens, context=self.facts.context, keep=keep)
        self._check(whole)
        if limit is not None and limit < 0:
            raise InputError(f"an answer cannot have {limit} tokens", hint="give 0 or more")
        self._turn += 1
        answer = Answer(iter(()))
        asked = Asked(
            tokens=tuple(tokens),
            sampling=sampling,
            limit=limit,
            slides=when_full is WhenFull.SLIDE,
            keep=keep,
            speculates=speculate
            and sampling.is_greedy
            and self.facts.verify > 0
            and constraint is None,
            follower=None if constraint is None else constraint.follower(self.facts),
        )
        answer._pieces = self._written(answer, asked, self._turn)
        return answer

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        sampling: Sampling = _GREEDY,
        limit: int | None = None,
        when_full: WhenFull = WhenFull.STOP,
        speculate: bool = True,
        constraint: Constraint | None = None,
    ) -> Answer:
        """Answer the last message of a conversation.

        Args:
            messages: `{"role": "user", "content": "…"}`, the oldest first, or one question.
            sampling: as in `generate`.
            limit: as in `generate`.
            when_full: as in `generate`; what stands before the first question stays.
            speculate: as in `generate`.
            constraint: as in `generate`.

        Raises:
            InputError: the model has no chat template, or it does not take these messages.
            And what `generate` raises.
        """
        prompt = self.prompt_of(messages)
        return self.generate(
            prompt,
            sampling=sampling,
            limit=limit,
            when_full=when_full,
            keep=self._beginning(messages, prompt) if when_full is WhenFull.SLIDE else SINKS,
            speculate=speculate,
            constraint=constraint,
        )

    def prompt_of(self, messages: str | Sequence[Message]) -> list[int]:
        """The tokens of a conversation up to where an answer begins."""
        if not self.facts.template:
            raise InputError(
                f"{self.module.module.path} has no chat template", hint="use generate, with a text"
            )
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        for message in given:
            check_text(str(message.get("content", "")))
        text = render(self.facts.template, given, self.facts.special)
        return self.tokenizer.encode(text, special=False)

    def next_token(self, tokens: Sequence[int], sampling: Sampling = _GREEDY) -> int:
        """Read what of `tokens` is not known yet; the token that follows them.

        Raises:
            InputError: there are none, too many, or some that there are not.
        """
        self._check(tokens)
        return self._reader.next_token(tokens, sampling)

    def save(self, path: Path | str) -> None:
        """Write what the module has read to a file, for `restore` here or in an app.

        Raises:
            FileError: it cannot be written.
            ModuleError: the module does not say which model it is.
        """
        self._reader.save(path)

    def restore(self, path: Path | str) -> None:
        """Know again what was known when the file was written.

        Raises:
            FileError: it cannot be read.
            InputError: it is damaged, or of another model, be it one with other weights alone.
            ModuleError: the module does not say which model it is.
        """
        self._reader.restore(path)

    def close(self) -> None:
        """Let go of the module."""
        self.module.close()

    def __repr__(self) -> str:
        return (
            f"<TextModel {self.module.module.path} on {self.module.device.uri}: "
            f"{len(self._reader.held)} of {self.facts.context} tokens>"
        )

    def _tokens(self, prompt: str | Sequence[int] | np.ndarray) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, special=True)
        return [int(token) for token in prompt]

    def _source(self, prompt: str | Sequence[int] | np.ndarray) -> np.ndarray:
        """What the encoder reads.

        Raises:
            InputError: it is text for a model that reads sound, or holds tokens that there are not.
        """
        if len(self.facts.source) > 1:
            if isinstance(prompt, str):
                raise InputError(
                    f"{self.module.module.path} reads features of sound, and this is a text",
                    hint="give f32[features, frames] as its feature extractor makes them",
                )
            return np.asarray(prompt, np.float32)
        tokens = self._tokens(prompt)
        self._check_tokens(tokens)
        return np.asarray(tokens, np.int32)

    def _check(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise InputError("the prompt has no tokens", hint="give a text that is not empty")
        if len(tokens) > self.facts.context:
            raise InputError(
                f"the prompt has {len(tokens)} tokens, and the context of "
                f"{self.module.module.path} holds {self.facts.context}",
                hint="shorten it, or export the model with a larger --context",
            )
        # What is known has been looked at: a long text costs a token no more than a short one.
        self._check_tokens(tokens[self._reader.common(tokens) :])

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        wrong = next((t for t in tokens if not 0 <= t < self.facts.vocabulary), None)
        if wrong is not None:
            raise InputError(
                f"the prompt holds the token {wrong}, and the model knows {self.facts.vocabulary}",
                hint="make the tokens with this model's own tokenizer",
            )

    def _beginning(self, messages: str | Sequence[Message], prompt: Sequence[int]) -> int:
        """How many tokens of a conversation stand before its first question."""
        given = [] if isinstance(messages, str) else list(messages)
        before = next((at for at, each in enumerate(given) if each.get("role") == "user"), 0)
        other = self.prompt_of([*given[:before], {"role": "user", "content": "?"}])
        alike = (one == another for one, another in zip(prompt, other, strict=False))
        return max(SINKS, sum(1 for _ in itertools.takewhile(bool, alike)))

    def _written(self, answer: Answer, asked: Asked, turn: int) -> Iterator[str]:
        """The answer's pieces; no more once another has begun."""
        yield from written(answer, asked, self._reader, self.tokenizer, lambda: self._turn != turn)
