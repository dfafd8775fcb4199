"""Ways to keep each line's weights to the best choices among all: none smaller and nearer at once.

What each way costs was measured with one line rounded alone. Errors of lines that are rounded
together add up about as squares do, so a choice can be built line by line: begin with the
smallest way of each, then spend bytes where they take away most of the squared error.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.quantising.scheme import Scheme

__all__ = ["Choice", "Way", "counted", "front"]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to keep a line's weights.

    Attributes:
        scheme: None for as they are.
        size: bytes.
        error: of the program's answers with only this line kept so.
    """

    scheme: Scheme | None
    size: int
    error: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A way for every line, measured together.

    Attributes:
        what: how many lines are kept how.
        size: bytes of all these lines' weights.
        error: of the answers, on the calls that the lines were measured on.
        taken: whether it is what the program became.
        seconds: of a call on the device that was asked for; None where none was.
    """

    what: str
    size: int
    error: float
    taken: bool
    seconds: float | None = None


def front(lines: Mapping[str, Sequence[Way]]) -> list[dict[str, Way]]:
    """Choices from the smallest to the nearest, each with one line more in a larger way."""
    hulls = {where: _hull(ways) for where, ways in lines.items()}
    moves = [
        (-_gain(one, other), where, number, other)
        for where, hull in hulls.items()
        for number, (one, other) in enumerate(itertools.pairwise(hull))
    ]
    chosen = {where: hull[0] for where, hull in hulls.items()}
    found = [dict(chosen)]
    for _, where, _, way in sorted(moves, key=lambda move: move[:3]):
        chosen[where] = way
        found.append(dict(chosen))
    return found


def counted(choice: Mapping[str, Way]) -> str:
    """`3 lines int4-g32, 1 int8`."""
    names = [str(way.scheme or "as it is") for way in choice.values()]
    counts = {name: names.count(name) for name in sorted(set(names))}
    first, *rest = (f"{count} {name}" for name, count in counts.items())
    count, _, name = first.partition(" ")
    return ", ".join([f"{count} line{'' if count == '1' else 's'} {name}", *rest])


def _hull(ways: Sequence[Way]) -> list[Way]:
    """The ways that no mixture of others beats, smallest first: bytes gain less and less."""
    found: list[Way] = []
    for way in sorted(ways, key=lambda way: (way.size, way.error)):
        if found and way.error >= found[-1].error:
            continue
        while len(found) > 1 and _gain(found[-1], way) >= _gain(found[-2], found[-1]):
            found.pop()
        found.append(way)
    return found


def _gain(one: Way, other: Way) -> float:
    """Squared error that a larger way takes away, a byte."""
    return (one.error**2 - other.error**2) / max(1, other.size - one.size)
