"""The fastest way through pieces, compared with all ways there are."""

import itertools
import random

import pytest

from edgec.splitting.choosing import Run, fastest


def all_ways(pieces, devices):
    for inner in itertools.product([False, True], repeat=pieces - 1):
        ends = [i + 1 for i, cut in enumerate(inner) if cut] + [pieces]
        starts = [0, *ends[:-1]]
        for chosen in itertools.product(devices, repeat=len(ends)):
            yield tuple(
                Run(start=s, end=e, device=d) for s, e, d in zip(starts, ends, chosen, strict=True)
            )


@pytest.mark.parametrize("seed", range(5))
def test_no_other_way_is_faster(seed):
    pieces, devices = 4, ("cpu", "gpu")
    chance = random.Random(seed)
    ways = list(all_ways(pieces, devices))
    times = {run: chance.random() * (run.end - run.start) for way in ways for run in way}
    found = fastest(times, pieces, devices)
    assert sum(times[run] for run in found) == min(sum(times[r] for r in way) for way in ways)


def test_of_two_ways_as_fast_the_one_of_fewer_modules_is_taken():
    whole, first, second = ((0, 2), (0, 1), (1, 2))
    times = {
        Run(start=s, end=e, device="cpu"): seconds
        for (s, e), seconds in ((whole, 2.0), (first, 1.0), (second, 1.0))
    }
    assert fastest(times, 2, ["cpu"]) == (Run(start=0, end=2, device="cpu"),)


def test_a_piece_that_one_device_refuses_goes_to_the_other():
    times = {
        Run(start=0, end=1, device="gpu"): 1.0,
        Run(start=0, end=1, device="cpu"): 2.0,
        Run(start=1, end=2, device="cpu"): 5.0,
        Run(start=0, end=2, device="cpu"): 9.0,
    }
    assert [run.device for run in fastest(times, 2, ["cpu", "gpu"])] == ["gpu", "cpu"]


def test_a_piece_that_no_device_takes_is_said():
    with pytest.raises(ValueError, match="no device takes every piece"):
        fastest({Run(start=0, end=1, device="cpu"): 1.0}, 2, ["cpu"])
