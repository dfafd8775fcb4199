"""PyTorch, run eagerly in inference mode."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers.engines.engine import Engine, Refused
from benchmarks.peers.models.model import Model, Precision

__all__ = ["TorchEager"]


class TorchEager(Engine):
    """No compiler; what most people's code does today."""

    name = "torch"
    title = "PyTorch eager"
    packages = ("torch",)

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        return {}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        if model.precision is not Precision.F32:
            raise Refused("only f32 is measured eagerly")
        import torch

        from benchmarks.peers.nets.with_torch import TorchNet

        torch.set_num_threads(threads)
        self._torch, self._model = torch, model
        self._net, self._weights = TorchNet(), model.weights()
        self._inputs = [
            torch.from_numpy(self._net.arrange(spec, array))
            for spec, array in zip(model.inputs, model.example(), strict=True)
        ]

    def run(self) -> None:
        with self._torch.inference_mode():
            self._results = self._model.build(self._net, self._weights, self._inputs)

    def outputs(self) -> Sequence[np.ndarray]:
        return [result.numpy() for result in self._results]
