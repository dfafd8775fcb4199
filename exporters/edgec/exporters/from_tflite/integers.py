"""Quantised convolutions and products: sums of whole numbers in f32, scaled once.

Data and weights less their zero points are whole numbers of 9 bits at most, whose products f32
adds without error up to 2^24, and the compiler has its best kernels for f32. The sum, with the
bias, becomes the output's integers by one multiplication, as in XNNPACK; a fused activation is a
cut of these.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from edgec.exporters.from_tflite.call import Call, centred
from edgec.exporters.from_tflite.model import TfliteTensor
from edgec.runtime.signature import Quantization

__all__ = ["fits", "product"]

_CUTS = {
    "none": (-np.inf, np.inf),
    "relu": (0.0, np.inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
}


def fits(call: Call, data: int, weights: int) -> bool:
    """Whether a product of these two inputs has integers on all sides."""
    tensors = (call.inputs[data], call.inputs[weights], call.outputs[0])
    return call.activation() in _CUTS and all(map(_is_narrow, tensors))


def product(call: Call, function: Callable[[Call], Any], data: int, weights: int) -> Any:
    """What an operator that is linear in data and weights gives, in its output's integers.

    Args:
        call: the operator with its integers.
        function: the operator in real numbers; channels out are the last axis.
        data: which input is the data.
        weights: which input is the weights, with one scale or one for each channel out.
    """
    from jax import lax

    whole = [
        value if value is None or tensor is None else centred(value, tensor)
        for value, tensor in zip(call.values, call.inputs, strict=True)
    ]
    total = function(Call(**{**vars(call), "values": whole, "linear": True}))
    out = _given(call.outputs[0])
    scales = np.array(_given(call.inputs[weights]).scales, np.float32)
    scale = np.float32(_given(call.inputs[data]).scales[0]) * scales / np.float32(out.scales[0])
    zero = np.float32(out.zero_points[0])
    low, high = _bounds(call, out)
    steps = call.xp.round(total * scale) + zero
    return lax.clamp(low, steps, high).astype(call.outputs[0].dtype)


def _bounds(call: Call, out: Quantization) -> tuple[np.float32, np.float32]:
    """The integers that the fused activation and the type leave."""
    limits = np.iinfo(call.outputs[0].dtype)
    cuts = _CUTS[call.activation()]
    low, high = (np.round(cut / out.scales[0]) + out.zero_points[0] for cut in cuts)
    return np.float32(max(limits.min, low)), np.float32(min(limits.max, high))


def _is_narrow(tensor: TfliteTensor | None) -> bool:
    return tensor is not None and tensor.quantization is not None and tensor.dtype.itemsize <= 2


def _given(tensor: TfliteTensor | None) -> Quantization:
    if tensor is None or tensor.quantization is None:
        raise TypeError("the tensor is not quantised")  # `fits` has looked
    return tensor.quantization
