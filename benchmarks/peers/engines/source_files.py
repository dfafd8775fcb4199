"""A model to the files that engines start from, each made once: StableHLO, ONNX, a reference."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.peers.models.model import Model

__all__ = ["jax_function", "onnx_file", "reference", "stablehlo_file", "timed"]


def jax_function(model: Model, dtype: str = "float32") -> Callable[..., tuple[object, ...]]:
    """The model as a JAX function of its inputs, the weights inside."""
    from benchmarks.peers.nets.with_jax import JaxNet

    net, weights = JaxNet(dtype), model.weights()

    def main(*values: object) -> tuple[object, ...]:
        return model.build(net, weights, values)

    return main


def stablehlo_file(model: Model, folder: Path) -> Path:
    """What `jax.export` writes, untouched by edgec."""
    path = folder / "jax.mlirbc"
    if not path.exists():
        import jax
        from jax import export

        function = jax.jit(jax_function(model))
        exported = export.export(function, platforms=["cpu"])(*model.example())
        _write(path, exported.mlir_module_serialized)
    return path


def onnx_file(model: Model, folder: Path) -> Path:
    """The model as an ONNX graph."""
    path = folder / "model.onnx"
    if not path.exists():
        from benchmarks.peers.nets.with_onnx import OnnxNet

        net = OnnxNet()
        outputs = model.build(net, model.weights(), [spec.name for spec in model.inputs])
        _write(path, net.model(model.inputs, outputs).SerializeToString())
    return path


def reference(model: Model, folder: Path) -> list[np.ndarray]:
    """What PyTorch gives in 64 bits."""
    path = folder / "reference.npz"
    if not path.exists():
        import torch

        from benchmarks.peers.nets.with_torch import TorchNet

        net = TorchNet(torch.float64)
        values = [
            torch.from_numpy(net.arrange(spec, array))
            for spec, array in zip(model.inputs, model.example(), strict=True)
        ]
        values = [v.double() if v.is_floating_point() else v for v in values]
        with torch.inference_mode():
            outputs = model.build(net, model.weights(), values)
        part = path.with_suffix(".part.npz")
        np.savez(part, *(output.numpy() for output in outputs))
        part.replace(path)
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def timed(step: Callable[[], object]) -> float:
    """Seconds that a step takes."""
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def _write(path: Path, data: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)
