"""ONNX Runtime on its CPU provider, every graph optimisation on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.source_files import onnx_file, onnx_inputs, timed
from benchmarks.peers.models.model import Model

__all__ = ["OnnxRuntime"]


class OnnxRuntime(Engine):
    """One session, `threads` threads inside of operations."""

    name = "ort"
    title = "ONNX Runtime"
    packages = ("onnxruntime", "onnx")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        return {"export": timed(lambda: onnx_file(model, folder))}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self._session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = onnx_inputs(model)

    def run(self) -> None:
        self._results: list[np.ndarray] = self._session.run(None, self._inputs)

    def outputs(self) -> Sequence[np.ndarray]:
        return self._results
