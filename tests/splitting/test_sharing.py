"""The ways that let most calls through, compared with all that there are."""

import itertools

import pytest

from edgec.splitting.choosing import Run
from edgec.splitting.sharing import most_calls


def _times(seconds):
    """Of runs: the sum of their pieces' seconds on each device, and what a cut costs."""
    return {
        Run(start=start, end=end, device=device): sum(each[start:end]) + 0.1
        for device, each in seconds.items()
        for start in range(len(each))
        for end in range(start + 1, len(each) + 1)
    }


def _assignments(devices, stages):
    """Every way to give each device a stage or none, with one device at least for each."""
    for places in itertools.product(range(stages + 1), repeat=len(devices)):
        if set(range(stages)) <= set(places) and sum(p < stages for p in places) > 1:
            yield {
                stage: [d for d, p in zip(devices, places, strict=True) if p == stage]
                for stage in range(stages)
            }


def _best_of_all(times, pieces, devices):
    found = []
    for count in range(1, min(pieces, len(devices)) + 1):
        for cuts in itertools.combinations(range(1, pieces), count - 1):
            ends = (0, *cuts, pieces)
            for given in _assignments(devices, count):
                rates = [
                    sum(1 / times[Run(start=a, end=b, device=d)] for d in given[stage])
                    for stage, (a, b) in enumerate(itertools.pairwise(ends))
                ]
                found.append(1 / min(rates))
    return min(found)


@pytest.mark.parametrize(
    ("seconds", "kinds"),
    [
        ({"a": (1.0, 1.0, 1.0)}, {"a": 2}),
        ({"a": (1.0, 5.0, 1.0)}, {"a": 3}),
        ({"a": (1.0, 4.0, 9.0), "b": (9.0, 4.0, 1.0)}, {"a": 1, "b": 1}),
        ({"a": (2.0, 1.0, 1.0, 3.0), "b": (8.0, 0.5, 0.5, 8.0)}, {"a": 2, "b": 1}),
    ],
)
def test_the_first_way_is_the_best_of_all(seconds, kinds):
    times, pieces = _times(seconds), len(next(iter(seconds.values())))
    devices = [name for name, count in kinds.items() for _ in range(count)]
    ways = most_calls(times, pieces, kinds, ways=3)
    assert ways[0].seconds == pytest.approx(_best_of_all(times, pieces, devices))
    assert [way.seconds for way in ways[:3]] == sorted(way.seconds for way in ways[:3])
    assert {len(way.stages) for way in ways} == set(range(1, min(pieces, len(devices)) + 1))
    for way in ways:
        assert [stage.start for stage in way.stages] == [
            0,
            *(stage.end for stage in way.stages[:-1]),
        ]
        assert way.stages[-1].end == pieces
        used = {name: sum(s.counts.get(name, 0) for s in way.stages) for name in kinds}
        assert all(used[name] <= count for name, count in kinds.items())


def test_a_device_that_refuses_a_run_does_not_get_it():
    times = _times({"a": (1.0, 1.0), "b": (1.0, 1.0)})
    for run in [Run(start=0, end=2, device="b"), Run(start=1, end=2, device="b")]:
        del times[run]
    (best, *_) = most_calls(times, 2, {"a": 1, "b": 1}, ways=2)
    assert [dict(stage.counts) for stage in best.stages] == [{"b": 1}, {"a": 1}]
