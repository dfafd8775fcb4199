"""A network in f32 and as NNCF quantises it, on OpenVINO: answers and times.

python nncf_child.py NETWORK.onnx RANGES.npz CALLS.npz ANSWERS.npz

Archives hold `CALL/INPUT`. It runs in a Python that has `nncf` and `openvino`, and imports nothing
of this repository. Prints JSON: error of the answers, and by threads the least seconds of a call of
both.
"""

import json
import sys
import time
from typing import Any

import numpy as np

_CALLS = 60


def main() -> None:
    import nncf
    import openvino as ov

    network, ranges, calls, answers = sys.argv[1:]
    core = ov.Core()
    plain = core.read_model(network)
    some = nncf.Dataset(_read(ranges))
    small = nncf.quantize(plain, some, model_type=nncf.ModelType.TRANSFORMER)
    given = _read(calls)
    both = [_compiled(core, model, 1) for model in (plain, small)]
    found = [[_answer(model, each) for each in given] for model in both]
    np.savez(answers, **{str(number): each for number, each in enumerate(found[1])})
    error = max(
        float(np.sqrt(np.mean((one - other) ** 2)) / one.std())
        for one, other in zip(*found, strict=True)
    )
    times = {}
    for threads in (1, 2):
        pair = [_compiled(core, model, threads) for model in (plain, small)]
        best = [float("inf")] * 2
        for _ in range(_CALLS):
            for number, model in enumerate(pair):
                began = time.perf_counter()
                _answer(model, given[0])
                best[number] = min(best[number], time.perf_counter() - began)
        times[threads] = best
    print(json.dumps({"error": error, "seconds": times}))


def _read(path: str) -> list[list[np.ndarray]]:
    """The calls of an archive, each a list of inputs."""
    found: dict[int, dict[int, np.ndarray]] = {}
    with np.load(path) as archive:
        for name in archive.files:
            call, index = map(int, name.split("/"))
            found.setdefault(call, {})[index] = archive[name]
    return [[each[index] for index in sorted(each)] for _, each in sorted(found.items())]


def _compiled(core: Any, model: Any, threads: int) -> Any:
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    return core.compile_model(model, "CPU", settings)


def _answer(model: Any, inputs: list[np.ndarray]) -> np.ndarray:
    return np.array(next(iter(model(inputs).values())))


if __name__ == "__main__":
    main()
