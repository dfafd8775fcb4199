"""What a call from Python costs, beside ONNX Runtime's, of networks that the zoo has made ready.

    python -m benchmarks.zoo --kind packages --name kaldi --only=ready --keep
    python -m benchmarks.edgert.calls packages/onnx-asr-kaldi.onnx

By `module.main(x)`, from NumPy's arrays to NumPy's arrays as in ONNX Runtime's `run`; and as the
zoo times it, from arrays on the device to views of their memory. The first row adds one to 16
numbers: what is left of a call where nothing is computed. Turns of all ways, one thread, the
fastest call of each, in microseconds.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage.process import ROOT
from benchmarks.peers.child import burst
from benchmarks.zoo.child import ONNX, PROGRAM, compiled
from benchmarks.zoo.speed import ENGINES
from edgec.runtime import Golden

_SMALLEST = "x + 1 of 16"


def ways(folder: Path, inputs: Sequence[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """By name, how a network's call is made."""
    from edgec import runtime

    module = runtime.load(compiled("cpu", folder), device="edgert://cpu?threads=1")
    function = module[next(iter(module.signatures))]
    return {
        "`main(x)`": lambda: function(*inputs),
        "as the zoo": ENGINES["edgec"](folder, 1, inputs),
        "ONNX Runtime": ENGINES["ort"](folder, 1, inputs),
    }


def smallest(folder: Path) -> list[np.ndarray]:
    """Make the smallest network in a folder, as the zoo does; what it is called with."""
    import onnx
    from onnx import TensorProto, helper

    from edgec import toolchain
    from edgec.exporters import export_source

    shape, one = [16], helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], "g", [x], [y], [one])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, folder / ONNX)
    options = toolchain.CompileOptions(output=compiled("cpu", folder))
    toolchain.compile(export_source(str(folder / ONNX)), "cpu", options)
    return [np.arange(16, dtype=np.float32)]


def measure(
    folder: Path, inputs: Sequence[np.ndarray], *, rounds: int, seconds: float
) -> dict[str, float]:
    """By way, the microseconds of the fastest call."""
    calls = ways(folder, inputs)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], 1000 * min(burst(call, seconds)))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="such as packages/onnx-asr-kaldi.onnx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    with tempfile.TemporaryDirectory() as scratch:
        found = {_SMALLEST: (Path(scratch), smallest(Path(scratch)))}
        for name in chosen.models:
            folder = ROOT / "build" / "zoo" / name
            golden = Golden.load(Golden.path_for(folder / PROGRAM)).calls[0]
            found[name] = (folder, list(golden.inputs))
        for number, (name, (folder, inputs)) in enumerate(found.items()):
            row = measure(folder, inputs, rounds=chosen.rounds, seconds=chosen.seconds)
            if number == 0:
                print("| network |", " | ".join(row), "|\n|---" + "|---" * len(row) + "|")
            print(
                f"| {name} |", " | ".join(f"{time:.1f}" for time in row.values()), "|", flush=True
            )


if __name__ == "__main__":
    main()
