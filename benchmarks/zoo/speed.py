"""One model's time on edgec's runtime and on its peers, in turns: `serve ENGINE FOLDER THREADS`.

Each engine is a process pinned to as many cores as it has threads, as in `benchmarks.peers`.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.child import burst, reason, say
from benchmarks.peers.process import Child, Failed
from benchmarks.zoo.child import ONNX, PROGRAM

__all__ = ["ENGINES", "take_turns"]

_READY_LIMIT = 300.0  # seconds
_PAUSE = 0.03  # seconds; lets the threads of the engine before go to sleep


def take_turns(
    folder: Path, threads: int, *, engines: Sequence[str], rounds: int, seconds: float
) -> dict[str, Any]:
    """By engine, the fastest milliseconds of a call, or why there are none; and their `errors`.

    Args:
        folder: the model's, with module, ONNX file and golden answers.
        threads: how many each engine gets.
        engines: names in `ENGINES`.
        rounds: how many turns each gets.
        seconds: how long a turn is.
    """
    found: dict[str, Any] = {}
    errors: dict[str, float] = {}
    children: dict[str, Child] = {}
    try:
        for engine in engines:  # all at once: they load while others do
            children[engine] = Child(
                "benchmarks.zoo.speed", "serve", engine, str(folder), str(threads)
            )
        for engine, child in children.items():
            try:
                errors[engine] = child.answer(_READY_LIMIT)["ok"]["error"]
            except Failed as failed:
                found[engine] = str(failed)
        for _ in range(rounds):
            for engine, child in children.items():
                if isinstance(found.get(engine), str):
                    continue
                time.sleep(_PAUSE)
                try:
                    child.ask({"seconds": seconds})
                    turn = min(child.answer(_READY_LIMIT)["ms"])
                except Failed as failed:
                    found[engine] = str(failed)
                else:
                    found[engine] = min(turn, found.get(engine, turn))
    finally:
        for child in children.values():
            child.close()
    return {**found, "errors": errors}


Call = Callable[[], Sequence[np.ndarray]]


def _edgec(folder: Path, threads: int, inputs: Sequence[np.ndarray]) -> Call:
    import edgec.runtime as er

    module = er.load(folder / "model.cpu.vmfb", device=f"edgert://cpu?threads={threads}")
    function = module[next(iter(module.signatures))]
    arrays = [module.device.put(array) for array in inputs]
    return lambda: [result.numpy() for result in function.call_flat(arrays)]


def _ort(folder: Path, threads: int, inputs: Sequence[np.ndarray]) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / ONNX), options, providers=["CPUExecutionProvider"]
    )
    feed = {spec.name: array for spec, array in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: list(session.run(None, feed))


def _openvino(folder: Path, threads: int, inputs: Sequence[np.ndarray]) -> Call:
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    request = core.compile_model(
        core.read_model(folder / ONNX), "CPU", settings
    ).create_infer_request()
    for number, array in enumerate(inputs):
        request.set_input_tensor(number, openvino.Tensor(array))

    def call() -> Sequence[np.ndarray]:
        request.infer()
        return [tensor.data for tensor in request.output_tensors]

    return call


ENGINES: dict[str, Callable[[Path, int, Sequence[np.ndarray]], Call]] = {
    "edgec": _edgec,
    "ort": _ort,
    "openvino": _openvino,
}


def main() -> int:
    """Say `{"ok": {"error": …}}` or `{"refused": …}`, then serve bursts until the input ends."""
    import json

    _, engine, where, count = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threads = int(count)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        from benchmarks.peers.accuracy import worst_error
        from edgec.runtime import Golden

        folder = Path(where)
        golden = Golden.load(Golden.path_for(folder / PROGRAM)).calls[0]
        call = ENGINES[engine](folder, threads, golden.inputs)
        error = worst_error(list(call()), list(golden.outputs))
        say(answers, {"ok": {"error": error if np.isfinite(error) else None}})
        for line in sys.stdin:
            say(answers, {"ms": burst(call, float(json.loads(line)["seconds"]))})
    except Exception as error:  # noqa: BLE001 - every failure is a row with its reason
        say(answers, {"refused": reason(error)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
