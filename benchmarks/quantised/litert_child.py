"""A network in f32 and as ai-edge-quantizer quantises it, on LiteRT: answers and times.

python litert_child.py FOLDER NETWORK.tflite static|dynamic RANGES.npz CALLS.npz ANSWERS.npz

Archives hold `CALL/INPUT`, inputs in the order of the network's names. The folder has
`ai_edge_quantizer`; LiteRT is this Python's. Imports nothing of this repository. Prints JSON: error
of the answers, bytes of both files, and by threads the least seconds of a call of both.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_CALLS = 60


def main() -> None:
    packages, network, how, ranges, calls, answers = sys.argv[1:]
    sys.path.append(packages)
    given = _read(calls)
    with tempfile.TemporaryDirectory() as folder:
        small = str(Path(folder) / "small.tflite")
        _quantise(network, how, _read(ranges), small)
        both = [_opened(path, 1) for path in (network, small)]
        found = [[_answer(each, inputs) for inputs in given] for each in both]
        np.savez(answers, **{str(number): each for number, each in enumerate(found[1])})
        error = max(
            float(np.sqrt(np.mean((one - other) ** 2)) / one.std())
            for one, other in zip(*found, strict=True)
        )
        times = {}
        for threads in (1, 2):
            pair = [_opened(path, threads) for path in (network, small)]
            best = [float("inf")] * 2
            for _ in range(_CALLS):
                for number, each in enumerate(pair):
                    began = time.perf_counter()
                    _answer(each, given[0])
                    best[number] = min(best[number], time.perf_counter() - began)
            times[threads] = best
        sizes = [Path(path).stat().st_size for path in (network, small)]
    print(json.dumps({"error": error, "sizes": sizes, "seconds": times}))


def _quantise(network: str, how: str, ranges: list[list[np.ndarray]], output: str) -> None:
    from ai_edge_quantizer import quantizer, recipe

    work = quantizer.Quantizer(network)
    if how == "dynamic":
        work.load_quantization_recipe(recipe.dynamic_wi8_afp32())
        work.quantize().export_model(output, overwrite=True)
        return
    work.load_quantization_recipe(recipe.static_wi8_ai8())
    opened = _opened(network, 1)
    (name,) = opened.get_signature_list()
    data = {name: [_named(opened, each) for each in ranges]}
    work.quantize(work.calibrate(data)).export_model(output, overwrite=True)


def _opened(path: str, threads: int) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    opened = Interpreter(model_path=path, num_threads=threads)
    opened.allocate_tensors()
    return opened


def _named(opened: Any, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs by the signature's names, in the types and with the axes that the network has."""
    (name,) = opened.get_signature_list()
    details = opened.get_signature_runner(name).get_input_details()
    return {
        each: _codes(value.reshape(details[each]["shape"]), details[each])
        for each, value in zip(sorted(details), inputs, strict=True)
    }


def _codes(value: np.ndarray, detail: dict[str, Any]) -> np.ndarray:
    """Numbers as an input that was quantised, too, takes them."""
    scale, zero = detail["quantization"]
    if scale:
        limits = np.iinfo(detail["dtype"])
        value = np.clip(np.round(value / scale) + zero, limits.min, limits.max)
    return value.astype(detail["dtype"])


def _answer(opened: Any, inputs: list[np.ndarray]) -> np.ndarray:
    (name,) = opened.get_signature_list()
    runner = opened.get_signature_runner(name)
    ((output, found),) = runner(**_named(opened, inputs)).items()
    scale, zero = runner.get_output_details()[output]["quantization"]
    return (found.astype(np.float32) - zero) * np.float32(scale) if scale else np.array(found)


def _read(path: str) -> list[list[np.ndarray]]:
    """The calls of an archive, each a list of inputs."""
    found: dict[int, dict[int, np.ndarray]] = {}
    with np.load(path) as archive:
        for name in archive.files:
            call, index = map(int, name.split("/"))
            found.setdefault(call, {})[index] = archive[name]
    return [[each[index] for index in sorted(each)] for _, each in sorted(found.items())]


if __name__ == "__main__":
    main()
