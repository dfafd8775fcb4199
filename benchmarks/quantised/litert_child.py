"""A network in f32 and as ai-edge-quantizer quantises it, on LiteRT: answers and times.

python litert_child.py FOLDER NETWORK.tflite static|dynamic RANGES.npz CALLS.npz ANSWERS.npz

Archives hold `CALL/INPUT`, inputs in the order of the network's names. The folder has
`ai_edge_quantizer`; LiteRT is this Python's. Imports `pairs` alone of this repository. Prints JSON:
error of the answers, bytes of both files, and by threads the least seconds of a call of both.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pairs import compared, read


def main() -> None:
    packages, network, how, ranges, calls, answers = sys.argv[1:]
    sys.path.append(packages)
    given = read(calls)
    with tempfile.TemporaryDirectory() as folder:
        small = str(Path(folder) / "small.tflite")
        _quantise(network, how, read(ranges), small)
        paths = (network, small)
        said = compared(lambda count: [_opened(p, count) for p in paths], _answer, given, answers)
        said["sizes"] = [Path(path).stat().st_size for path in paths]
    print(json.dumps(said))


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


if __name__ == "__main__":
    main()
