"""Golden calls as nobody should have them in a module: cut short, huge, no numbers."""

import json
from functools import cache
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_calls import SeededCall, SeededCalls
from edgec.runtime.seeded_input import SeededInput
from edgec.runtime.tolerance import Tolerance

__all__ = ["damaged_calls", "some_calls"]


@cache
def some_calls() -> SeededCalls:
    """A call of a function with an input and an output."""
    random = np.random.default_rng(1)
    given = SeededInput.like(random.standard_normal((2, 20)).astype(np.float32), seed=4)
    known = SampledOutput.of(given.array(), Tolerance.of(DType.F32))
    call = SeededCall(function="main", inputs=(given,), outputs=(known,))
    return SeededCalls(calls=(call,), source="a test", is_stateful=True)


def damaged_calls() -> list[tuple[str, Any]]:
    """What is wrong with each, and the text."""

    def change(*path: str | int, to: Any) -> str:
        value = json.loads(some_calls().text())
        *way, last = path
        spot = value
        for step in way:
            spot = spot[step]
        spot[last] = to
        return json.dumps(value)

    given, known = ("calls", 0, "inputs", 0), ("calls", 0, "outputs", 0)
    return [
        ("schema", change("schema", to=2)),
        ("no calls", change("calls", to=[])),
        ("too many calls", change("calls", to=[0] * 10**5)),
        ("huge shape", change(*given, "shape", to=[1 << 40])),
        ("huge product", change(*given, "shape", to=[1 << 20, 1 << 20])),
        ("negative size", change(*given, "shape", to=[-1])),
        ("huge count", change(*given, "count", to=1 << 40)),
        ("no count", change(*given, "count", to=0)),
        ("exponent", change(*given, "exponent", to=10**9)),
        ("type", change(*given, "type", to="f33")),
        ("a float", change(*given, "base", to=1.5)),
        ("NaN", change(*known, "samples", to=[0, float("nan"), 1])),
        ("infinite", change(*known, "sums", to=[float("inf"), 1])),
        ("outside", change(*known, "samples", to=[1 << 40, 0, 0])),
        ("half a sample", change(*known, "samples", to=[0, 0])),
        ("negative tolerance", change(*known, "samples", to=[0, 0, -1])),
        ("more sums than numbers", change(*known, "sums", to=[0] * 200)),
        ("cut short", some_calls().text()[:-40]),
        ("nothing", ""),
        ("a list", "[]"),
        ("deep", "[" * 100_000),
    ]
