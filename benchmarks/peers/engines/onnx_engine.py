"""What engines that read ONNX have in common: inputs by name, images with the channels first."""

import numpy as np

from benchmarks.peers.models.model import Model
from benchmarks.peers.nets.with_onnx import OnnxNet

__all__ = ["onnx_inputs"]


def onnx_inputs(model: Model) -> dict[str, np.ndarray]:
    """The example inputs as the ONNX graph takes them."""
    net = OnnxNet()
    return {
        spec.name: net.arrange(spec, array)
        for spec, array in zip(model.inputs, model.example(), strict=True)
    }
