"""A program to one whose weights have as few bits as an allowed error lets each line of it have.

Each line is measured alone in 4 and in 8 bits. That orders the choices for all lines together
(`front.py`); which of them is within the error is then measured, not added up.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgec.quantising.answers import measurable
from edgec.quantising.front import Choice, Way, counted, front
from edgec.quantising.quantise import CALLS, SECONDS, Quantised, Work
from edgec.quantising.scheme import AUTO, Scheme
from edgec.quantising.timing import Clock
from edgec.runtime.errors import WrongAnswer
from edgec.toolchain.program import Program
from edgec.toolchain.weights_file import write_weights

__all__ = ["MOST", "quantise_by_choice", "within"]

MOST = 0.01
"""How far answers may be off where nobody says, as a part of their spread."""

_WAYS = (Scheme(bits=4, group=32), Scheme(bits=8))


def quantise_by_choice(
    program: Program,
    *,
    keep: Sequence[str] = (),
    max_error: float = MOST,
    weights_file: Path | str | None = None,
    calls: int = CALLS,
    halves: bool = True,
    seconds: float = SECONDS,
    clock: Clock | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Quantised:
    """Round a program's weights as `quantise` does, each line's in 4 bits, 8, or not at all.

    Args:
        And as `quantise`.
        max_error: how far the answers may be off, on the calls that lines are measured on. Of a
            program whose answers are whole numbers (tokens) that counts what it remembers, too.
        clock: times the choices that were measured; None for no times.

    Raises:
        UsageError: there is nothing to round, or `keep` names nothing.
        WrongAnswer: no line can be rounded within the error.
        ProgramError: NumPy does not know the program, or computes something else.
    """
    work = Work(
        program, measurable(program, calls), _WAYS[0], keep, tell, halves=halves, others=_WAYS[1:]
    )
    work.how = AUTO
    work.compare()
    work.shorten(seconds / len(_WAYS))
    ways = {where: _ways(work, where) for where in work.layers}
    taken, told = within(front(ways), max_error, lambda choice: _error(work, choice), tell)
    if not any(way.scheme for way in taken.values()):
        least = min(way.error for each in ways.values() for way in each if way.scheme)
        raise WrongAnswer(
            f"no line can be rounded within {max_error:.2%}: the one that costs least makes an "
            f"error of {least:.2%}",
            hint=f"allow more than that: --max-error={2 * least:.1%}",
        )
    choices = tuple(
        each if clock is None else replace(each, seconds=_seconds(work, ways_of, clock))
        for each, ways_of in told
    )
    _take(work, taken, ways)
    work.how = f"{AUTO} ({counted(taken)})"
    return work.written(None if weights_file is None else Path(weights_file), choices)


def within(
    choices: Sequence[Mapping[str, Way]],
    most: float,
    error_of: Callable[[Mapping[str, Way]], float],
    tell: Callable[[str], None],
) -> tuple[Mapping[str, Way], tuple[tuple[Choice, Mapping[str, Way]], ...]]:
    """The smallest choice that is off by no more than `most`, and all that were measured.

    Args:
        choices: from the smallest to the nearest, which is taken where no other will do.
        most: what is allowed.
        error_of: measures one.
        tell: is told what is at work.
    """
    errors: dict[int, float] = {}

    def error(number: int) -> float:
        if number not in errors:
            tell(f"measuring {counted(choices[number])}")
            errors[number] = error_of(choices[number])
        return errors[number]

    low, high = (0, len(choices) - 1) if error(0) > most else (-1, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if error(middle) <= most:
            high = middle
        else:
            low = middle
    for number in (high, len(choices) // 2):  # one more to compare with, where the first will do
        error(number)
    told = tuple(
        (
            Choice(
                what=counted(choices[number]),
                size=sum(way.size for way in choices[number].values()),
                error=errors[number],
                taken=number == high,
            ),
            choices[number],
        )
        for number in sorted(errors)
    )
    return choices[high], told


def _ways(work: Work, where: str) -> list[Way]:
    """How a line's weights can be kept, and what each way costs alone."""
    layers = work.layers[where]
    found = [Way(scheme=None, size=sum(layer.numbers.nbytes for layer in layers), error=0.0)]
    for scheme in _WAYS:
        if all(scheme.fits(layer.inner) for layer in layers):
            work.tell(f"rounding {where} alone to {scheme}")
            work.put(where, scheme)
            size = sum(work.made(layer).size for layer in layers)
            found.append(Way(scheme=scheme, size=size, error=work.again(where)))
    return found


def _error(work: Work, choice: Mapping[str, Way]) -> float:
    rounded = [where for where, way in choice.items() if way.scheme is not None]
    for where in rounded:
        work.put(where, choice[where].scheme)
    return work.together(rounded)


def _seconds(work: Work, choice: Mapping[str, Way], clock: Clock) -> float:
    """What a call takes with the weights of a choice."""
    work.tell(f"timing {counted(choice)} on {clock.target.name}")
    other = work.anew({where: way.scheme for where, way in choice.items()})
    with tempfile.TemporaryDirectory(prefix="edgec-choice-") as folder:
        program, weights = other.rewritten(Path("weights.safetensors"))
        if program.info.weights is not None:
            write_weights(weights, Path(folder) / program.info.weights.file)
        return clock.seconds(program.save(Path(folder) / "choice.mlirbc"))


def _take(work: Work, taken: Mapping[str, Way], ways: Mapping[str, Sequence[Way]]) -> None:
    """Make the choice the program's."""
    for where, way in taken.items():
        tried = {str(each.scheme): each.error for each in ways[where] if each.scheme is not None}
        if way.scheme is None:
            work.leave(where, ", ".join(f"{error:.2%} in {name}" for name, error in tried.items()))
            continue
        work.put(where, way.scheme)
        work.alone[where], work.tried[where] = way.error, tried
