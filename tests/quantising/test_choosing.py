"""Choices of bits for each line, against all that there are."""

import itertools
import math

import numpy as np
import pytest

from edgec.quantising.choosing import within
from edgec.quantising.front import Way, counted, front
from edgec.quantising.scheme import Scheme

FOUR, EIGHT = Scheme(bits=4, group=32), Scheme(bits=8)


def _ways(size: int, four: float, eight: float) -> list[Way]:
    return [
        Way(scheme=None, size=4 * size, error=0.0),
        Way(scheme=FOUR, size=size // 2, error=four),
        Way(scheme=EIGHT, size=size, error=eight),
    ]


def _size(choice: dict[str, Way]) -> int:
    return sum(way.size for way in choice.values())


def _squares(choice: dict[str, Way]) -> float:
    return sum(way.error**2 for way in choice.values())


@pytest.mark.parametrize("seed", range(4))
def test_no_choice_of_all_is_smaller_and_nearer_at_once(seed: int) -> None:
    draw = np.random.default_rng(seed)
    lines = {
        name: _ways(int(draw.integers(1, 9)) * 1024, float(four), float(four * part))
        for name, four, part in zip(
            "abcde", draw.uniform(0.001, 0.1, 5), draw.uniform(0.02, 0.5, 5), strict=True
        )
    }
    found = front(lines)
    sizes, errors = [_size(each) for each in found], [_squares(each) for each in found]
    assert sizes == sorted(sizes)
    assert errors == sorted(errors, reverse=True)
    assert {way.scheme for way in found[0].values()} == {FOUR}
    assert {way.scheme for way in found[-1].values()} == {None}
    for combination in itertools.product(*lines.values()):
        size, error = sum(w.size for w in combination), sum(w.error**2 for w in combination)
        assert not any(
            size < one and error < other * (1 - 1e-9)
            for one, other in zip(sizes, errors, strict=True)
        )


def test_the_smallest_choice_that_is_measured_within_the_error_is_taken() -> None:
    lines = {f"line{n}": _ways(1024, 0.01 * (n + 1), 0.001) for n in range(6)}
    choices = front(lines)
    measured: list[str] = []

    def error_of(choice: dict[str, Way]) -> float:
        measured.append(counted(choice))
        return 1.3 * math.sqrt(_squares(choice))  # roundings that add up worse than they should

    for most in (0.2, 0.05, 0.02, 0.002):
        measured.clear()
        taken, told = within(choices, most, error_of, lambda _: None)
        fitting = [each for each in choices if 1.3 * math.sqrt(_squares(each)) <= most]
        assert taken == fitting[0]
        assert len(measured) == len(set(measured)) < len(choices)
        assert [each.taken for each, _ in told].count(True) == 1
        assert [each.size for each, _ in told] == sorted(_size(ways) for _, ways in told)


def test_a_way_that_is_larger_and_no_nearer_is_never_taken() -> None:
    ways = [*_ways(1024, 0.0, 0.01)]
    assert [each["a"].scheme for each in front({"a": ways})] == [FOUR]


def test_choices_are_told_in_words() -> None:
    taken = {"a": _ways(1, 0, 0)[1], "b": _ways(1, 0, 0)[2], "c": _ways(1, 0, 0)[2]}
    assert counted(taken) == "1 line int4-g32, 2 int8"
