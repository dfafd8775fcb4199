"""A network in f32 and as NNCF quantises it, on OpenVINO: answers and times.

python nncf_child.py NETWORK.onnx RANGES.npz CALLS.npz ANSWERS.npz

Archives hold `CALL/INPUT`. It runs in a Python that has `nncf` and `openvino`, and imports nothing
of this repository. Prints JSON: error of the answers, and by threads the least seconds of a call of
both.
"""

import json
import sys
from typing import Any

import numpy as np
from pairs import compared, read


def main() -> None:
    import nncf
    import openvino as ov

    network, ranges, calls, answers = sys.argv[1:]
    core = ov.Core()
    plain = core.read_model(network)
    small = nncf.quantize(plain, nncf.Dataset(read(ranges)), model_type=nncf.ModelType.TRANSFORMER)

    def opened(threads: int) -> list[Any]:
        return [_compiled(core, model, threads) for model in (plain, small)]

    print(json.dumps(compared(opened, _answer, read(calls), answers)))


def _compiled(core: Any, model: Any, threads: int) -> Any:
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    return core.compile_model(model, "CPU", settings)


def _answer(model: Any, inputs: list[np.ndarray]) -> np.ndarray:
    return np.array(next(iter(model(inputs).values())))


if __name__ == "__main__":
    main()
