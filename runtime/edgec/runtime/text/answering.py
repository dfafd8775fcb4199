"""An answer as it is written: token after token, read one by one or with guesses behind them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgec.runtime.text.answer import Answer, Finish, Stats
from edgec.runtime.text.constraint import Follower
from edgec.runtime.text.lookup import Lookup
from edgec.runtime.text.reading import Reader
from edgec.runtime.text.sampling import Sampling
from edgec.runtime.text.sliding import window
from edgec.runtime.text.tokenizer import Tokenizer

__all__ = ["Asked", "written"]

_WORTH = 2.0
"""Tokens that calls with guesses have to read on average: one takes about as long as so many."""
_WEIGHT = 0.3
"""Of the newest such call in that average."""
_PATIENCE = 0.125
"""What each guess that was not tried adds to it, so that guesses are tried again some day."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an answer is to be: see `TextModel.generate`.

    Attributes:
        tokens: the prompt.
        sampling: how tokens are chosen.
        limit: the most tokens that are made; None for no bound.
        slides: whether a text that outgrows the context goes on.
        keep: how many tokens at its beginning stay then.
        speculates: whether guesses are read along with tokens.
        follower: what says which tokens may come; None for all.
    """

    tokens: tuple[int, ...]
    sampling: Sampling
    limit: int | None
    slides: bool
    keep: int
    speculates: bool
    follower: Follower | None = None


def written(
    answer: Answer,
    asked: Asked,
    reader: Reader,
    tokenizer: Tokenizer,
    is_over: Callable[[], bool],
) -> Iterator[str]:
    """The pieces of an answer, which is told its tokens, how it ended and what it took.

    Args:
        answer: whose pieces they are.
        asked: what it is to be.
        reader: what has read the texts before.
        tokenizer: what makes text of tokens.
        is_over: whether nobody wants more.
    """
    if asked.limit == 0:
        answer.finish = Finish.LIMIT
        return
    text = _Text(asked, reader)
    began = time.perf_counter()
    known = text.known
    coming = text.begun()
    started = time.perf_counter()
    stream = tokenizer.stream()
    while coming:
        token = coming.pop(0)
        answer.tokens.append(token)
        answer.stats = Stats(
            prompt=len(asked.tokens),
            reused=known,
            first=started - began,
            tokens=len(answer.tokens),
            seconds=time.perf_counter() - started,
        )
        if token in reader.facts.stop:
            answer.finish = Finish.STOP
            break
        piece = stream.add(token)
        if piece:
            yield piece
        if is_over():
            return
        if asked.limit is not None and len(answer.tokens) >= asked.limit:
            answer.finish = Finish.LIMIT
            break
        text.add(token)
        if not coming:
            coming = text.following()
    else:
        answer.finish = text.finish
    rest = stream.rest()
    if rest:
        yield rest


class _Text:
    """A prompt and what follows it.

    Attributes:
        tokens: all of them, also those that are read no more.
        known: how many of the prompt's had been read before.
        finish: why nothing follows, where that is so.
    """

    def __init__(self, asked: Asked, reader: Reader) -> None:
        self._asked, self._reader = asked, reader
        self._lookup = Lookup()
        self._paid = float(reader.facts.verify)
        """How many tokens calls with guesses read, on average."""
        self.tokens = list(asked.tokens)
        self.known = reader.common(self._read())
        self.finish = Finish.CONTEXT

    def add(self, token: int) -> None:
        """The text goes on with this."""
        self.tokens.append(token)
        if self._asked.follower is not None:
            self._asked.follower.add(token)

    def begun(self) -> list[int]:
        """Read the prompt; what follows it, nothing where nothing may."""
        return self._after(lambda: self._reader.read_to_end(self._read()))

    def following(self) -> list[int]:
        """Read the last token; what follows it, and perhaps more; nothing in a full context."""
        facts, held = self._reader.facts, len(self._reader.held)
        if held >= facts.context:
            return self.begun() if self._asked.slides else []
        if self._asked.speculates:
            self._lookup.extend(self.tokens[self._lookup.size :])
            guesses = self._lookup.guess(min(facts.verify, facts.context - held) - 1)
            if guesses and self._paid >= _WORTH:
                found = self._reader.verify(self.tokens[-1], guesses)
                self._paid += _WEIGHT * (len(found) - self._paid)
                return found
            self._paid += _PATIENCE if guesses else 0
        return self._after(lambda: self._reader.read(self.tokens[-1:]))

    def _after(self, read: Callable[[], int]) -> list[int]:
        """The token that is chosen once tokens are read; nothing where none may follow."""
        allowed = None
        if self._asked.follower is not None:
            allowed = self._asked.follower.allowed()
            if allowed is None:
                self.finish = Finish.STOP
                return []
        return [self._reader.chosen(read(), self._asked.sampling, allowed)]

    def _read(self) -> Sequence[int]:
        """The tokens that are read of it."""
        if not self._asked.slides:
            return self.tokens
        context = self._reader.facts.context
        return window(self.tokens, context=context, keep=self._asked.keep)
