"""What the programs that ask a tiny language model in other languages are to print, by Python."""

from pathlib import Path
from typing import cast

import numpy as np

from edgec.runtime.text import Answer, Constraint, Sampling, TextModel, WhenFull
from edgec.runtime.text.facts import TextFacts
from tests.exporters import one_language_model

__all__ = ["QUESTION", "answers", "said", "save_another"]

QUESTION = "Zoë → 🙂? What is the capital of France?"


def answers(module: Path) -> tuple[list[tuple[str, str]], str]:
    """Why each answer ended and its text, and a text that the program breaks off."""
    drawn = Sampling(temperature=1.5, top_k=40, top_p=0.9, seed=3)
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What?"}]
    with TextModel(module) as model:
        told = [
            _told(model.chat(QUESTION, limit=30)),
            _told(model.generate("Once", sampling=drawn, limit=12)),
            _told(model.chat(asked, limit=90, when_full=WhenFull.SLIDE)),
            _told(model.generate("Once", constraint=cast("Constraint", Even()))),
        ]
        return told, _told(model.generate("Once"))[1]


def save_another(path: Path) -> None:
    """Write what a model of the same shapes and other weights has read."""
    one_language_model.save_as_another(path, "Once upon a time")


def said(printed: str) -> list[tuple[str, str]]:
    """Lines of why an answer ended, and its text in hexadecimal."""
    words = [line.split(" ") for line in printed.splitlines()]
    return [(finish, bytes.fromhex(text).decode()) for finish, text in words]


class Even:
    """Every second token, six times; a constraint and its follower."""

    def __init__(self) -> None:
        self.taken = 0

    def follower(self, facts: TextFacts) -> "Even":
        self.words = np.full(-(-facts.vocabulary // 32), 0x55555555, np.int32)
        return self

    def allowed(self) -> np.ndarray | None:
        return self.words if self.taken < 6 else None

    def add(self, _: int) -> None:
        self.taken += 1


def _told(answer: Answer) -> tuple[str, str]:
    text = answer.whole()
    assert answer.finish is not None
    return answer.finish.name, text
