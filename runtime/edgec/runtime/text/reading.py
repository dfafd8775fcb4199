"""Tokens to what follows them: the module's functions, and which tokens it has read."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import DeviceError, InputError, ModuleError
from edgec.runtime.loaded import LoadedModule
from edgec.runtime.text.facts import (
    DECODE,
    ENCODE,
    PREFILL,
    RESET,
    SAMPLE,
    SAMPLE_ALLOWED,
    VERIFY,
    TextFacts,
)
from edgec.runtime.text.sampling import Sampling

__all__ = ["Reader"]


class Reader:
    """A module with a language model, and the tokens whose keys and values are on its device.

    Attributes:
        held: these tokens; the device may know of more.
    """

    def __init__(self, module: LoadedModule, facts: TextFacts) -> None:
        """Check that the module has all functions.

        Raises:
            ModuleError: one is missing.
        """
        names = [ENCODE] if facts.source else []
        names += [*(PREFILL.format(size=n) for n in facts.prefill), DECODE, SAMPLE, RESET]
        if facts.verify:
            names.append(VERIFY.format(size=facts.verify))
        missing = [name for name in names if name not in module.signatures]
        if missing:
            raise ModuleError(
                f"{module.module.path} has no function {missing[0]}", hint="export the model again"
            )
        self._module, self._facts = module, facts
        self.held: list[int] = []
        self._position: int | None = 0
        """How many tokens the device knows of; None where a call did not end."""

    @property
    def facts(self) -> TextFacts:
        """What the module says of its text."""
        return self._facts

    def next_token(self, tokens: Sequence[int], sampling: Sampling) -> int:
        """Read what of `tokens` is not known yet; the token that follows them.

        Raises:
            DeviceError: the context has no room for them.
        """
        return self.chosen(self.read_to_end(tokens), sampling)

    def read_to_end(self, tokens: Sequence[int]) -> int:
        """Read what of `tokens` is not known yet; the likeliest token that follows them.

        Raises:
            DeviceError: the context has no room for them.
        """
        self.forget_from(self.common(tokens))
        return self.read(tokens[len(self.held) :])

    def chosen(self, likeliest: int, sampling: Sampling, allowed: np.ndarray | None = None) -> int:
        """The next token, of which the likeliest is known.

        Args:
            likeliest: of all tokens.
            sampling: how it is chosen.
            allowed: among which, as the module takes it; None for all.

        Raises:
            ModuleError: the module cannot choose among some.
        """
        if sampling.is_greedy and (allowed is None or _holds(allowed, likeliest)):
            return likeliest
        inputs: dict[str, Any] = dict(sampling.inputs())
        if allowed is None:
            return int(self._module[SAMPLE](**inputs))
        if SAMPLE_ALLOWED not in self._module.signatures:
            raise ModuleError(
                f"{self._module.module.path} was exported before modules could choose among "
                "some tokens alone",
                hint="export the model again",
            )
        # A model may score more tokens than there are: those are never allowed.
        size = self._module.signatures[SAMPLE_ALLOWED].inputs[0].shape[0]
        missing = size - len(allowed) if isinstance(size, int) else 0
        words = np.pad(allowed, (0, missing))
        return int(self._module[SAMPLE_ALLOWED](allowed=words, **inputs))

    def common(self, tokens: Sequence[int]) -> int:
        """How many of these are known; the last one is read again, for what follows it."""
        known = len(self.held)
        if known >= len(tokens) or list(tokens[:known]) != self.held:
            pairs = zip(tokens[:-1], self.held, strict=False)
            known = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        # Of what is known a recurrent model can take nothing back.
        return 0 if self._facts.recurrent and known < len(self.held) else known

    def forget_from(self, position: int) -> None:
        """Know only the first tokens; none where a recurrent model has read more than these."""
        if self._position != position:
            position = int(self._module[RESET](np.array(position, np.int32)))
            self._position = position
        self.held = self.held[:position]

    def encode(self, source: np.ndarray) -> None:
        """Read what the next texts are about: tokens, or features of sound; forget all else.

        Raises:
            InputError: it is empty, or of another size than the module takes.
        """
        facts = self._facts
        is_text = len(facts.source) == 1
        fits = 0 < len(source) <= facts.source[0] if is_text else source.shape == facts.source
        if not fits:
            wanted = " x ".join(map(str, facts.source))
            raise InputError(
                f"the source has a size of {' x '.join(map(str, source.shape))}, and "
                f"{self._module.module.path} reads {'up to ' if is_text else ''}{wanted}",
                hint="shorten it, or export the model with a larger --context"
                if is_text
                else "make features as the model's own feature extractor does",
            )
        self.held, self._position = [], None
        if is_text:
            count = np.array(len(source), np.int32)
            self._module[ENCODE](_padded(source.tolist(), facts.source[0]), count)
        else:
            self._module[ENCODE](source.astype(np.float32))
        self._position = 0

    def read(self, tokens: Sequence[int]) -> int:
        """Read tokens, in chunks; the likeliest next one.

        Raises:
            DeviceError: the context has no room for them.
        """
        rest = list(tokens)
        token = -1
        self._position = None
        while rest:
            size = self._facts.chunk(len(rest))
            part, rest = rest[:size], rest[size:]
            if size == 1:
                token = int(self._module[DECODE](np.array(part[0], np.int32)))
            else:
                function = self._module[PREFILL.format(size=size)]
                token = int(function(_padded(part, size), np.array(len(part), np.int32)))
            if token < 0:
                raise self._full()
            self.held += part
        self._position = len(self.held)
        return token

    def verify(self, token: int, guesses: Sequence[int]) -> list[int]:
        """Read a token and as many guesses behind it as the model would have chosen itself.

        Args:
            token: the text's next one.
            guesses: fewer than a call of `verify` takes; the context has room for them.

        Returns:
            The likeliest token after each that was read: the guesses that were right, and one more.

        Raises:
            DeviceError: the context has no room for them.
        """
        size, part = self._facts.verify, [token, *guesses]
        self._position = None
        function = self._module[VERIFY.format(size=size)]
        given = (_padded(part, size), np.array(len(part), np.int32))
        found = [int(each) for each in np.asarray(function(*given)) if each >= 0]
        if not found:
            raise self._full()
        self.held += part[: len(found)]
        self._position = len(self.held)
        return found

    def save(self, path: Path | str) -> None:
        """Write what was read to a file.

        Raises:
            FileError: it cannot be written.
        """
        from edgec.runtime.text.saved import write

        self.forget_from(len(self.held))
        write(path, self._module.module, self._module.state(), self.held)

    def restore(self, path: Path | str) -> None:
        """Know again what was known when the file was written.

        Raises:
            FileError: it cannot be read.
            InputError: it is of another module, or damaged.
        """
        from edgec.runtime.text.saved import read

        state, held = read(path, self._module.module)
        self.held = []
        self._position = None
        self._module.set_state(state)
        self.held = held

    def _full(self) -> DeviceError:
        return DeviceError(
            f"the context of {self._module.module.path} is full at "
            f"{len(self.held)} of {self._facts.context} tokens",
            hint="begin a new text, or export the model with a larger --context",
        )


def _holds(allowed: np.ndarray, token: int) -> bool:
    return bool(allowed[token // 32] >> (token % 32) & 1)


def _padded(tokens: Sequence[int], size: int) -> Any:
    chunk = np.zeros(size, np.int32)
    chunk[: len(tokens)] = tokens
    return chunk
