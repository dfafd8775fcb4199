"""What the zoo holds: subjects by kind and name, in an order that no one chose."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

__all__ = ["KNOWN", "Built", "Left", "Subject", "drawn", "sampled"]

_HELD_OUT = 5  # one in so many
KNOWN = "known"
"""The kind of what is known to fail; its rows count for themselves alone."""


class Left(Exception):
    """A model of the list that is not measured: too large, or its own library cannot build it."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One model of a list that others wrote."""

    kind: str
    name: str

    @property
    def held_out(self) -> bool:
        """Whether nobody looks at it while they work on edgec; a fifth, by the name's hash.

        Of what is known to fail nothing is.
        """
        return self.kind != KNOWN and _digest("held out", self.name) % _HELD_OUT == 0

    @property
    def key(self) -> str:
        """Kind and name as one word."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A model with example inputs, as `edgec.exporters.export` takes them.

    Attributes:
        model: a framework's model, or what the command line takes.
        inputs: its positional inputs.
        kwargs: its inputs by name.
        onnx: writes the model for the peers to this path; None where they cannot have it.
        proof: flat inputs and the answers to them that others gave; none for the framework's own.
    """

    model: Any
    inputs: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    onnx: Callable[[str], None] | None = None
    proof: tuple[Sequence[np.ndarray], Sequence[np.ndarray]] | None = None


def drawn(kind: str, names: Sequence[str]) -> list[Subject]:
    """All of a list in a random order that is the same every time."""
    return [Subject(kind=kind, name=name) for name in sorted(names, key=lambda n: _digest(kind, n))]


def sampled(subjects: Iterable[Subject], count: int, *, seed: int) -> list[Subject]:
    """So many of them by chance, spread over the kinds: one of each kind in turn."""
    by_kind: dict[str, list[Subject]] = {}
    for subject in sorted(subjects, key=lambda s: _digest("sample", str(seed), s.key)):
        by_kind.setdefault(subject.kind, []).append(subject)
    turns = zip_longest(*by_kind.values())
    return [subject for turn in turns for subject in turn if subject is not None][:count]


def _digest(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("/".join(parts).encode()).digest()[:8], "big")
