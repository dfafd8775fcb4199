"""OpenVINO's CPU plugin in f32, tuned for latency; it reads the ONNX graph."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.source_files import onnx_file, onnx_inputs, timed
from benchmarks.peers.models.model import Model

__all__ = ["OpenVino"]


class OpenVino(Engine):
    """One stream; the precision is named, since the plugin takes bf16 on CPUs that have it."""

    name = "openvino"
    title = "OpenVINO"
    packages = ("openvino", "onnx")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        return {"export": timed(lambda: onnx_file(model, folder))}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        import openvino

        core = openvino.Core()
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,
        }
        compiled = core.compile_model(core.read_model(folder / "model.onnx"), "CPU", settings)
        self._request = compiled.create_infer_request()
        for name, array in onnx_inputs(model).items():
            self._request.set_tensor(name, openvino.Tensor(array))

    def run(self) -> None:
        self._request.infer()

    def outputs(self) -> Sequence[np.ndarray]:
        return [tensor.data.copy() for tensor in self._request.output_tensors]
