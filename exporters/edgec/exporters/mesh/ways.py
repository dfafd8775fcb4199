"""What devices do in which order, with loops and branches in which they speak to each other.

A route (`edgec.runtime.mesh.plan`) has neither, nor calls of the host's code; a way without any
becomes one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.runtime.mesh.plan import Call, Collective

__all__ = ["FLOWS", "Callback", "Step", "Turns", "Way", "collectives_within"]

FLOWS = ("while", "case", "if")
"""What has ways of its own, as StableHLO calls it."""


@dataclass(frozen=True, kw_only=True)
class Turns:
    """A loop or a branch: ways that devices go when their own numbers say so.

    Attributes:
        kind: one of `FLOWS`. A loop has two ways, its condition and what it repeats; both take what
            the loop carries and then what it uses from outside. A branch has a way for each case;
            they take what is used from outside.
        inputs: the values that are given: of a branch first its number, or whether it is true.
        outputs: the values that it makes.
        ways: of the devices.
        where: the user's line.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ways: tuple["Way", ...]
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Callback:
    """A call of the host's own code, in the program's order.

    Attributes:
        number: which, as the host counts them.
        every: whether each device calls with its own values; else the first does, and all get what
            it is given.
        inputs: the values that are given.
        outputs: the values that it makes.
        arrays: the shape of each output and MLIR's name of its elements.
    """

    number: int
    every: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arrays: tuple[tuple[tuple[int, ...], str], ...]


Step = Call | Collective | Turns | Callback


@dataclass(frozen=True, kw_only=True)
class Way:
    """Steps in order; values have numbers, the inputs' first.

    Attributes:
        inputs: how many there are.
        outputs: the values that are given.
        steps: what each device does.
    """

    inputs: int
    outputs: tuple[int, ...]
    steps: tuple[Step, ...]


def collectives_within(turns: Turns) -> Iterator[Collective]:
    """What devices say to each other in a loop or branch, in order; there is some."""
    for way in turns.ways:
        for step in way.steps:
            if isinstance(step, Collective):
                yield step
            elif isinstance(step, Turns):
                yield from collectives_within(step)
