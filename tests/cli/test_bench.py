from pathlib import Path

import numpy as np
import pytest

from edgec.cli.random_inputs import random_inputs
from edgec.runtime import Module


def test_a_measurement_has_all_its_parts(edgec, module: Path) -> None:
    done = edgec("bench", module, "--seconds=0.05")
    assert done.code == 0
    for word in ("load", "first call", "P50", "P90", "P99", "throughput", "peak memory"):
        assert word in done.out
    assert "the inputs are random (seed 0)" in done.err


def test_json_has_the_numbers_in_seconds_and_bytes(edgec, module: Path) -> None:
    line = ("bench", module, "--function=scores", "--iterations=20", "--threads=2", "--json")
    value = edgec(*line).json
    result = value["result"]
    assert value["inputs"] == "random"
    assert result["calls"] == 40
    assert result["threads"] == 2
    assert 0 < result["minimum"] <= result["p50"] <= result["p90"] <= result["p99"]
    assert result["load"] > 0
    assert result["first"] > 0
    assert result["throughput"] > 0
    assert result["peak_rss"] > 1 << 20
    assert value["profile"] is None


def test_inputs_may_be_given(edgec, module: Path) -> None:
    np.save("x.npy", np.zeros((3, 4), np.float32))
    line = ("bench", module, "--function=scores", "--iterations=3", "--json")
    value = edgec(*line, "--input=@x.npy").json
    assert value["inputs"] == "given"
    assert "notes" not in value
    assert edgec(*line, "--input=@x.npy", "--size=n=3").code == 2
    assert edgec(*line, "--size=n=3").code == 2


def test_a_profile_names_the_dispatches(edgec, module: Path) -> None:
    line = ("bench", module, "--function=scores", "--iterations=3", "--profile")
    profile = edgec(*line, "--json").json["profile"]
    dispatch = next(d for d in profile["dispatches"] if "scores" in d["name"])
    assert profile["device"] == "edgert://cpu"
    assert dispatch["count"] == profile["calls"]
    assert profile["total"] <= profile["elapsed"]
    done = edgec(*line)
    assert dispatch["name"] in done.out
    assert "outside" in done.out


@pytest.mark.parametrize("flag", ["--seconds=0", "--seconds=-1", "--iterations=0", "--threads=0"])
def test_times_and_counts_that_measure_nothing_are_refused(edgec, module: Path, flag: str) -> None:
    assert edgec("bench", module, flag).code == 2


def test_the_seed_is_that_of_the_inputs(module: Path) -> None:
    signature = Module.read(module).signatures["scores"]
    one, same = (random_inputs(signature, seed=7, sizes={}) for _ in range(2))
    np.testing.assert_array_equal(one, same)
