"""A model to the files that engines start from, each made once: StableHLO, ONNX, a reference."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.peers.engines.engine import Refused
from benchmarks.peers.models.model import Model, Precision

__all__ = ["jax_function", "onnx_file", "onnx_inputs", "reference", "stablehlo_file", "timed"]


_FLOATS = {Precision.F32: "float32", Precision.F16: "float16"}
_CALIBRATION = 4  # sets of inputs


def jax_function(model: Model) -> Callable[..., tuple[object, ...]]:
    """The model as a JAX function of its inputs, the weights inside.

    Raises:
        Refused: it is quantised; JAX has no form of that which inference engines read.
    """
    if model.precision is Precision.I8:
        raise Refused("JAX has no quantised form of it")
    from benchmarks.peers.nets.with_jax import JaxNet

    net, weights = JaxNet(_FLOATS[model.precision]), model.weights()

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
    """The model as an ONNX graph; quantised ones by ONNX Runtime, in QuantizeLinear pairs."""
    path = folder / "model.onnx"
    if path.exists():
        return path
    from benchmarks.peers.nets.with_onnx import OnnxNet

    net = OnnxNet(_FLOATS.get(model.precision, "float32"))
    outputs = model.build(net, model.weights(), [spec.name for spec in model.inputs])
    data = net.model(model.inputs, outputs).SerializeToString()
    if model.precision is Precision.I8:
        full = folder / "full.onnx"
        _write(full, data)
        _quantise(model, full, path)
    else:
        _write(path, data)
    return path


def onnx_inputs(model: Model, number: int = 0) -> dict[str, np.ndarray]:
    """A set of inputs as the ONNX graph takes them: images with the channels first."""
    from benchmarks.peers.nets.with_onnx import OnnxNet

    net, arrays = OnnxNet(), model.examples(number + 1)[number]
    return {s.name: net.arrange(s, a) for s, a in zip(model.inputs, arrays, strict=True)}


def _quantise(model: Model, source: Path, path: Path) -> None:
    """Weights as i8 by channel, activations as u8 by tensor: ONNX Runtime's advice for x86."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [onnx_inputs(model, i) for i in range(_CALIBRATION)]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self._left.pop() if self._left else None

    part = path.with_suffix(".part")
    quantization.quantize_static(
        str(source),
        str(part),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    part.replace(path)


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
