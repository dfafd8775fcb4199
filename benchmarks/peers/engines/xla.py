"""XLA: the JAX function under `jax.jit` on the CPU."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.source_files import jax_function
from benchmarks.peers.models.model import Model

__all__ = ["Xla"]


class Xla(Engine):
    """Its threads are as many as the cores that the process is pinned to."""

    name = "xla"
    title = "XLA (jax.jit)"
    packages = ("jax", "jaxlib")

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        return {}

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        import jax

        self._function = jax.jit(jax_function(model))
        self._inputs = [jax.device_put(array) for array in model.example()]

    def run(self) -> None:
        self._results = self._function(*self._inputs)
        for result in self._results:
            result.block_until_ready()

    def outputs(self) -> Sequence[np.ndarray]:
        return [np.asarray(result) for result in self._results]
