"""A module with a language model in it: prompts and conversations to text."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from edgec.runtime.device import Device
from edgec.runtime.errors import DeviceError, InputError, ModuleError
from edgec.runtime.loaded import LoadedModule, load
from edgec.runtime.text.answer import Answer, Finish, Stats
from edgec.runtime.text.facts import DECODE, PREFILL, RESET, SAMPLE, TextFacts
from edgec.runtime.text.sampling import Sampling
from edgec.runtime.text.template import Message, render
from edgec.runtime.text.tokenizer import Tokenizer

__all__ = ["TextModel"]

_GREEDY = Sampling()


class TextModel:
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
    ) -> None:
        """Load a module, as `edgec.runtime.load` does.

        Raises:
            ModuleError: it holds no language model.
            And what `load` raises.
        """
        self.module = (
            path if isinstance(path, LoadedModule) else load(path, device=device, weights=weights)
        )
        file = self.module.module
        if not file.text:
            raise ModuleError(
                f"{file.path} holds no language model that edgec exported",
                hint="export one: edgec export hf:FOLDER, or edgec export MODEL.gguf",
            )
        self.facts = TextFacts.parse(file.text)
        missing = [name for name in self._functions() if name not in self.module.signatures]
        if missing:
            raise ModuleError(
                f"{file.path} has no function {missing[0]}", hint="export the model again"
            )
        self._held: list[int] = []
        """The tokens whose keys and values are on the device; the device may know of more."""
        self._position: int | None = 0
        """How many tokens the device knows of; None where a call did not end."""
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
        return tuple(self._held)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        sampling: Sampling = _GREEDY,
        limit: int | None = None,
    ) -> Answer:
        """Go on with a text.

        Args:
            prompt: text, or tokens.
            sampling: how tokens are chosen; the likeliest ones without it.
            limit: the most tokens that are made; None for as many as the context holds.

        Raises:
            InputError: the prompt is empty, too long, or holds tokens that there are not.
            MissingExtra: `tokenizers` is not installed.
        """
        if isinstance(prompt, str):
            tokens = self.tokenizer.encode(prompt, special=True)
        else:
            tokens = [int(token) for token in prompt]
        self._check(tokens)
        if limit is not None and limit < 0:
            raise InputError(f"an answer cannot have {limit} tokens", hint="give 0 or more")
        self._turn += 1
        answer = Answer(iter(()))
        answer._pieces = self._answer(answer, tokens, sampling, limit, self._turn)
        return answer

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        sampling: Sampling = _GREEDY,
        limit: int | None = None,
    ) -> Answer:
        """Answer the last message of a conversation.

        Args:
            messages: `{"role": "user", "content": "…"}`, the oldest first, or one question.
            sampling: as in `generate`.
            limit: as in `generate`.

        Raises:
            InputError: the model has no chat template, or it does not take these messages.
            And what `generate` raises.
        """
        return self.generate(self.prompt_of(messages), sampling=sampling, limit=limit)

    def prompt_of(self, messages: str | Sequence[Message]) -> list[int]:
        """The tokens of a conversation up to where an answer begins."""
        if not self.facts.template:
            raise InputError(
                f"{self.module.module.path} has no chat template", hint="use generate, with a text"
            )
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        text = render(self.facts.template, given, self.facts.special)
        return self.tokenizer.encode(text, special=False)

    def next_token(self, tokens: Sequence[int], sampling: Sampling = _GREEDY) -> int:
        """Read what of `tokens` is not known yet; the token that follows them.

        Raises:
            InputError: there are none, too many, or some that there are not.
        """
        self._check(tokens)
        known = self._common(tokens)
        self._forget_from(known)
        token = self._read(tokens[known:])
        return self._chosen(token, sampling)

    def save(self, path: Path | str) -> None:
        """Write what the module has read to a file (`.npz`), for `restore`.

        Raises:
            FileError: it cannot be written.
        """
        from edgec.runtime.text.saved import write

        self._forget_from(len(self._held))
        write(path, self.module.module, self.module.state(), self._held)

    def restore(self, path: Path | str) -> None:
        """Know again what was known when the file was written.

        Raises:
            FileError: it cannot be read.
            InputError: it is of another module, or damaged.
        """
        from edgec.runtime.text.saved import read

        state, held = read(path, self.module.module)
        self._held = []
        self._position = None
        self.module.set_state(state)
        self._held = held

    def close(self) -> None:
        """Let go of the module."""
        self.module.close()

    def __enter__(self) -> "TextModel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<TextModel {self.module.module.path} on {self.module.device.uri}: "
            f"{len(self._held)} of {self.facts.context} tokens>"
        )

    def _functions(self) -> list[str]:
        return [*(PREFILL.format(size=n) for n in self.facts.prefill), DECODE, SAMPLE, RESET]

    def _check(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise InputError("the prompt has no tokens", hint="give a text that is not empty")
        if len(tokens) > self.facts.context:
            raise InputError(
                f"the prompt has {len(tokens)} tokens, and the context of "
                f"{self.module.module.path} holds {self.facts.context}",
                hint="shorten it, or export the model with a larger --context",
            )
        wrong = next((t for t in tokens if not 0 <= t < self.facts.vocabulary), None)
        if wrong is not None:
            raise InputError(
                f"the prompt holds the token {wrong}, and the model knows {self.facts.vocabulary}",
                hint="make the tokens with this model's own tokenizer",
            )

    def _answer(
        self, answer: Answer, tokens: list[int], sampling: Sampling, limit: int | None, turn: int
    ) -> Iterator[str]:
        if limit == 0:
            answer.finish = Finish.LIMIT
            return
        began = time.perf_counter()
        known = self._common(tokens)
        token = self.next_token(tokens, sampling)
        started = time.perf_counter()
        stream = self.tokenizer.stream()
        while True:
            answer.tokens.append(token)
            answer.stats = Stats(
                prompt=len(tokens),
                reused=known,
                first=started - began,
                tokens=len(answer.tokens),
                seconds=time.perf_counter() - started,
            )
            if token in self.facts.stop:
                answer.finish = Finish.STOP
                break
            piece = stream.add(token)
            if piece:
                yield piece
            if self._turn != turn:
                return
            if limit is not None and len(answer.tokens) >= limit:
                answer.finish = Finish.LIMIT
                break
            if len(self._held) >= self.facts.context:
                answer.finish = Finish.CONTEXT
                break
            token = self._chosen(self._read([token]), sampling)
        rest = stream.rest()
        if rest:
            yield rest

    def _common(self, tokens: Sequence[int]) -> int:
        """How many of these are known; the last one is read again, for what follows it."""
        known = 0
        for one, other in zip(tokens[:-1], self._held, strict=False):
            if one != other:
                break
            known += 1
        return known

    def _forget_from(self, position: int) -> None:
        self._held = self._held[:position]
        if self._position != position:
            self.module[RESET](np.array(position, np.int32))
            self._position = position

    def _read(self, tokens: Sequence[int]) -> int:
        """Read tokens, in chunks; the likeliest next one."""
        rest = list(tokens)
        token = -1
        self._position = None
        while rest:
            if len(rest) == 1:
                part, rest = rest, []
                token = int(self.module[DECODE](np.array(part[0], np.int32)))
            else:
                size = next((n for n in self.facts.prefill if n >= len(rest)), None)
                size = size or self.facts.prefill[-1]
                part, rest = rest[:size], rest[size:]
                chunk = np.zeros(size, np.int32)
                chunk[: len(part)] = part
                function = self.module[PREFILL.format(size=size)]
                token = int(function(chunk, np.array(len(part), np.int32)))
            if token < 0:
                raise DeviceError(
                    f"the context of {self.module.module.path} is full at "
                    f"{len(self._held)} of {self.facts.context} tokens",
                    hint="begin a new text, or export the model with a larger --context",
                )
            self._held += part
        self._position = len(self._held)
        return token

    def _chosen(self, likeliest: int, sampling: Sampling) -> int:
        if sampling.is_greedy:
            return likeliest
        inputs: Mapping[str, Any] = sampling.inputs()
        return int(self.module[SAMPLE](**inputs))
