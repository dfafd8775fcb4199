"""edgec: exported from JAX (quantised models from ONNX), compiled for this CPU, and run."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.peers.engines.engine import Engine
from benchmarks.peers.engines.source_files import jax_function, onnx_file, onnx_inputs, timed
from benchmarks.peers.models.model import Model, Precision

__all__ = ["MODULE", "Edgec", "example_inputs"]

MODULE = "edgec.vmfb"


class Edgec(Engine):
    """Compiled anew at every build, since what it measures is edgec as it is now."""

    name = "edgec"
    title = "edgec"
    packages = ("edgec", "iree-base-compiler", "iree-base-runtime", "jax")
    device: ClassVar[str] = "local-task"

    def build(self, model: Model, folder: Path) -> dict[str, float]:
        from edgec.exporters import export, export_source
        from edgec.toolchain import CompileOptions, compile

        begin = time.perf_counter()
        if model.precision is Precision.I8:
            program = export_source(str(onnx_file(model, folder)))
        else:
            program = export(jax_function(model), tuple(model.example()))
        exported = time.perf_counter() - begin
        options = CompileOptions(output=folder / MODULE, cache=False, check=False)
        return {
            "export": exported,
            "compile": timed(lambda: compile(program, "cpu:host", options)),
        }

    def prepare(self, model: Model, folder: Path, threads: int) -> None:
        import edgec.runtime as er

        module = er.load(folder / MODULE, device=f"{self.device}?threads={threads}")
        self._function = module[next(iter(module.signatures))]
        self._inputs = [module.device.put(array) for array in example_inputs(model)]

    def run(self) -> None:
        self._results = self._function.call_flat(self._inputs)

    def outputs(self) -> Sequence[np.ndarray]:
        return [result.numpy() for result in self._results]


def example_inputs(model: Model) -> list[np.ndarray]:
    """The inputs as the program that edgec exports takes them."""
    if model.precision is Precision.I8:
        return list(onnx_inputs(model).values())
    return model.example()
