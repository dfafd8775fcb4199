"""LiteRT (TensorFlow Lite) with XNNPACK, converted from the model in TensorFlow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.source_files import timed
from benchmarks.peers.models.model import Model, Precision

__all__ = ["LiteRt"]

_CALIBRATION = 4  # sets of inputs


class LiteRt(Engine):
    """The interpreter takes XNNPACK by itself for every operation that it has.

    Models in f16 have f16 weights and f32 inputs; XNNPACK computes them in f32.
    """

    name = "litert"
    title = "LiteRT (XNNPACK)"
    packages = ("ai-edge-litert", "tensorflow-cpu")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        path = folder / "model.tflite"
        return {} if path.exists() else {"export": timed(lambda: _convert(model, path))}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(folder / "model.tflite"), num_threads=threads)
        self._interpreter.allocate_tensors()
        runner = self._interpreter.get_signature_runner()
        inputs = runner.get_input_details()
        for spec, array in zip(model.inputs, model.example(), strict=True):
            self._interpreter.set_tensor(inputs[spec.name]["index"], array.astype(spec.dtype))
        outputs = runner.get_output_details()
        self._outputs = [outputs[f"out{i}"]["index"] for i in range(len(outputs))]

    def run(self) -> None:
        self._interpreter.invoke()

    def outputs(self) -> Sequence[np.ndarray]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]


def _convert(model: Model, path: Path) -> None:
    import tensorflow as tf

    from benchmarks.peers.nets.with_tensorflow import TensorFlowNet

    net, weights = TensorFlowNet(), model.weights()
    specs = [tf.TensorSpec(s.shape, getattr(tf, s.dtype), name=s.name) for s in model.inputs]

    @tf.function(input_signature=specs)
    def main(*values: Any) -> dict[str, Any]:
        outputs = model.build(net, weights, values)
        return {f"out{i}": tf.identity(output) for i, output in enumerate(outputs)}

    module = tf.Module()
    module.main = main
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [main.get_concrete_function()], module
    )
    if model.precision is not Precision.F32:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if model.precision is Precision.F16:
        converter.target_spec.supported_types = [tf.float16]
    if model.precision is Precision.I8:
        names = [spec.name for spec in model.inputs]
        converter.representative_dataset = lambda: (
            dict(zip(names, arrays, strict=True)) for arrays in model.examples(_CALIBRATION)
        )
    part = path.with_suffix(".part")
    part.write_bytes(converter.convert())
    part.replace(path)
