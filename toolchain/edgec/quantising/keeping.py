"""Lines of a program that stay as they are: as somebody asked, or to keep its answers near."""

from collections.abc import Callable, Mapping, Sequence

from edgec.runtime.errors import WrongAnswer

__all__ = ["is_named", "refusal"]


def is_named(where: str, name: str, asked: str) -> bool:
    """Whether a line or a weight is meant: in full, or by the end of its path."""
    return asked in (where, name) or where.endswith(f"/{asked}")


def refusal(
    how: str,
    alone: Mapping[str, float | None],
    most: float,
    error: float,
    error_of: Callable[[Sequence[str]], float],
    tell: Callable[[str], None],
) -> WrongAnswer:
    """What to keep so that the answers, which are off by `error`, are within a bound.

    Args:
        how: what is rounded to what, in words.
        alone: the error of each line alone.
        most: what is allowed.
        error: what it is.
        error_of: the error of some lines together.
        tell: is told what is at work.
    """
    order = sorted(alone, key=lambda where: -(alone[where] or 0.0))
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        tell(f"trying to keep {middle} of {len(order)} lines")
        if error_of(order[middle:]) > most:
            low = middle
        else:
            high = middle
    what = f"with {how} the answers are off by {error:.2%} of their spread"
    if high == len(order):
        hint = f"no line can be rounded within {most:.2%}: try more bits, or smaller groups"
    else:
        kept = " ".join(f"--keep={where.rpartition('/')[2]}" for where in order[:high])
        hint = f"keep what costs most: {kept}"
    return WrongAnswer(f"{what}, and {most:.2%} is allowed", hint=hint)
