"""What a loop or a branch is that was cut out of an ONNX graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Branches", "Part", "Scanned", "Turns"]


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """A loop over slices of values.

    Attributes:
        count: how many turns.
        states: how many values go from turn to turn.
        axes, backward: of each value that is sliced, along which axis and from which end.
        out_axes, out_backward: the same of what turns give, one slice each.
    """

    count: int
    states: int
    axes: Sequence[int]
    backward: Sequence[bool]
    out_axes: Sequence[int]
    out_backward: Sequence[bool]


@dataclass(frozen=True, kw_only=True)
class Turns:
    """A loop whose body takes the turn's number, and whether to go on.

    Attributes:
        count: how many turns, where every one is taken; else None.
        states: how many values go from turn to turn.
        bounded, guarded: whether the first values read are a number of turns, a condition.
    """

    count: int | None
    states: int
    bounded: bool
    guarded: bool


@dataclass(frozen=True, kw_only=True)
class Branches:
    """One of two bodies, by the first value that is read."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What was cut out.

    Attributes:
        node: the node.
        form: what it is.
        takes: the values that it reads; what its bodies read from outside comes last.
        gives: the values that it gives, by which result of the form each is.
        types: ONNX' element type and the shape of each of these.
        bodies: models, one, or those of the two branches.
        reads: which of the last values that are read each body takes.
    """

    node: Any
    form: Scanned | Turns | Branches
    takes: Sequence[str]
    gives: Mapping[int, str]
    types: Sequence[tuple[int, Sequence[int]]]
    bodies: Sequence[Any]
    reads: Sequence[Sequence[int]]

    @property
    def outside(self) -> int:
        """How many values the bodies read from outside."""
        return len({place for places in self.reads for place in places})
