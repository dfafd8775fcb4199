"""How the next token is chosen, as the module's `sample` function takes it."""

from dataclasses import dataclass

import numpy as np

from edgec.runtime.errors import UsageError

__all__ = ["Sampling"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen; without a temperature it is the likeliest one (greedy).

    The steps are taken in the order of this list, as Hugging Face's `generate` takes them.

    Attributes:
        repetition_penalty: what the scores of tokens that are in the text already are divided by
            (negative ones multiplied); 1 leaves them.
        temperature: what scores are divided by before they become probabilities; 0 takes the
            best.
        top_k: only so many of the best may be drawn; 0 for all.
        top_p: only the best that together have this probability.
        min_p: only those at least this part as likely as the best.
        seed: another one gives another text, the same one the same.
    """

    repetition_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, fits, allowed in (
            ("repetition_penalty", self.repetition_penalty > 0, "above 0"),
            ("temperature", self.temperature >= 0, "0 or above"),
            ("top_k", self.top_k >= 0, "0 or above"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
        ):
            if not fits:
                raise UsageError(f"{name} is {getattr(self, name)}", hint=f"it must be {allowed}")

    @property
    def is_greedy(self) -> bool:
        """Whether it takes what the module gives anyway."""
        return self.temperature == 0 and self.repetition_penalty == 1

    def inputs(self) -> dict[str, np.ndarray]:
        """What `sample` takes, by name."""
        return {
            "temperature": np.array(self.temperature, np.float32),
            "top_k": np.array(min(self.top_k, 2**31 - 1), np.int32),
            "top_p": np.array(self.top_p, np.float32),
            "min_p": np.array(self.min_p, np.float32),
            "repetition_penalty": np.array(self.repetition_penalty, np.float32),
            "seed": np.array(self.seed % 2**32, np.uint32).astype(np.int32),
        }
