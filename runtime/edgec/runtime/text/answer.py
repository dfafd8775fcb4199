"""An answer as it is written: pieces of text, and in the end how it ended and what it took."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Answer", "Finish", "Stats"]


class Finish(Enum):
    """Why an answer ended."""

    STOP = "stop"
    """The model ended it."""
    LIMIT = "limit"
    """It has as many tokens as were asked for."""
    CONTEXT = "context"
    """The context is full."""
    BROKEN_OFF = "broken off"
    """Nobody asked for more."""


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What an answer took.

    Attributes:
        prompt: tokens of the prompt.
        reused: how many of them the module still knew from before.
        first: seconds until the first token was there.
        tokens: tokens of the answer, the one that ended it included.
        seconds: seconds that all tokens after the first took.
    """

    prompt: int
    reused: int
    first: float
    tokens: int
    seconds: float

    @property
    def prompt_rate(self) -> float:
        """Tokens of the prompt a second, those that were known left out."""
        return (self.prompt - self.reused) / self.first if self.first else 0.0

    @property
    def rate(self) -> float:
        """Tokens of the answer a second, after the first."""
        return (self.tokens - 1) / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "prompt_tokens": self.prompt,
            "reused_tokens": self.reused,
            "first_token_seconds": self.first,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "prompt_tokens_per_second": self.prompt_rate,
            "tokens_per_second": self.rate,
        }

    def __str__(self) -> str:
        known = f" ({self.reused} known)" if self.reused else ""
        return (
            f"prompt {self.prompt} tokens{known}, first token after {self.first:.3f} s "
            f"({self.prompt_rate:.1f} tokens/s); answer {self.tokens} tokens, "
            f"{self.rate:.1f} tokens/s"
        )


class Answer(Iterator[str]):
    """Pieces of text as the model writes them; each is made when it is asked for.

    Attributes:
        tokens: what the model has chosen so far.
        finish: why the answer ended; `BROKEN_OFF` as long as it has not.
        stats: what it took so far.
    """

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._said: list[str] = []
        self.tokens: list[int] = []
        self.finish = Finish.BROKEN_OFF
        self.stats = Stats(prompt=0, reused=0, first=0.0, tokens=0, seconds=0.0)

    def __next__(self) -> str:
        piece = next(self._pieces)
        self._said.append(piece)
        return piece

    @property
    def text(self) -> str:
        """What was written so far."""
        return "".join(self._said)

    def whole(self) -> str:
        """Write the answer to its end, and give all of its text."""
        for _ in self:
            pass
        return self.text
