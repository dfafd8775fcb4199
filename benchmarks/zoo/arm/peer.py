"""A peer's calls on the emulated Arm: `python peer.py ort|litert MODEL INPUTS.npz CALLS`.

It runs in that machine's Python, which has NumPy and the peers and nothing of edgec's. Two calls
come before those that are counted, which stand between two marks (count.c).
"""

import os
import sys
from collections.abc import Callable, Sequence

import numpy as np


def _ort(model: str, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {spec.name: array for spec, array in zip(session.get_inputs(), arrays, strict=True)}
    return lambda: session.run(None, feed)


def _litert(model: str, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=1)
    interpreter.allocate_tensors()
    for spec, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(spec["index"], array)
    return interpreter.invoke


if __name__ == "__main__":
    _, peer, path, inputs, calls = sys.argv
    with np.load(inputs) as held:
        given = [held[name] for name in held.files]
    call = {"ort": _ort, "litert": _litert}[peer](path, given)
    for counted in (2, int(calls)):
        for _ in range(counted):
            call()
        os.getpriority(os.PRIO_PROCESS, 0)
