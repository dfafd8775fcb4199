"""One operator at work: its inputs as arrays, its options, and what the file says of its tensors.

An operator's function works in real numbers unless the table says otherwise. Its arrays are JAX's,
or NumPy's where sizes of dynamic dimensions are computed; `xp` is the module that takes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from edgec.exporters.from_tflite.model import TfliteOperator, TfliteTensor
from edgec.runtime.errors import UnsupportedOp
from edgec.runtime.signature import Quantization

__all__ = ["Call", "centred", "dequantized", "quantized"]

_ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "sign_bit"}


@dataclass(frozen=True, kw_only=True)
class Call:
    """An operator and its inputs.

    Attributes:
        operator: as the file has it.
        values: an array for each input; None where an optional one is left out.
        known: the value of each input that is known while exporting, else None.
        inputs: what the file says of each input; None where it is left out.
        outputs: what the file says of each output.
        xp: `jax.numpy`, or NumPy for arrays of symbolic sizes.
        linear: leave the fused activation to whoever called.
    """

    operator: TfliteOperator
    values: Sequence[Any]
    known: Sequence[np.ndarray | None]
    inputs: Sequence[TfliteTensor | None]
    outputs: Sequence[TfliteTensor]
    xp: ModuleType
    linear: bool = False

    def __getitem__(self, index: int) -> Any:
        return self.values[index]

    def has(self, index: int) -> bool:
        """Whether this input was given."""
        return index < len(self.values) and self.values[index] is not None

    def option(self, name: str, default: Any) -> Any:
        """A field of the operator's options."""
        value = getattr(self.operator.options, name, None)
        return default if value is None else value

    def constant(self, index: int) -> np.ndarray:
        """An input that has to be known while exporting.

        Raises:
            UnsupportedOp: it is computed from the model's inputs.
        """
        value = self.known[index]
        if value is None:
            given = self.inputs[index]
            name = "" if given is None else given.name
            self.refuse(f"with input {index} ({name}) computed at run time")
        return value

    def sizes(self, index: int) -> list[Any]:
        """A known vector as Python numbers (or symbols)."""
        return [d if not hasattr(d, "item") else d.item() for d in self.constant(index).reshape(-1)]

    def axes(self, index: int, rank: int) -> tuple[int, ...]:
        """A known vector of axes, none of them negative."""
        return tuple(int(a) % rank for a in self.constant(index).reshape(-1))

    def refuse(self, form: str) -> NoReturn:
        """Raise the refusal of a form that this operator has here.

        Raises:
            UnsupportedOp: always.
        """
        name = self.outputs[0].name if self.outputs else "none"
        raise UnsupportedOp(
            f"TensorFlow Lite's {self.operator.kind} {form} is not supported",
            where=f"the operator that computes {name}",
            hint="docs/tflite.md lists what is; convert the model without it, or export it "
            "from its framework",
        )

    def activation(self) -> str:
        """The name of the activation that is fused into the operator."""
        return _ACTIVATIONS.get(int(self.option("fusedActivationFunction", 0)), "unknown")

    def activated(self, value: Any) -> Any:
        """The fused activation of a value, in real numbers."""
        functions = {
            "none": lambda x: x,
            "relu": lambda x: self.xp.maximum(x, 0),
            "relu_n1_to_1": lambda x: self.xp.clip(x, -1, 1),
            "relu6": lambda x: self.xp.clip(x, 0, 6),
            "tanh": self.xp.tanh,
        }
        name = self.activation()
        if self.linear:
            return value
        if name not in functions:
            self.refuse(f"with the fused activation {name}")
        return functions[name](value)


def dequantized(value: Any, tensor: TfliteTensor, *, wide: bool = False) -> Any:
    """The real numbers (f32) that a tensor's integers stand for; others as they are.

    Integers of more than 16 bits are numbers of their own, unless they are `wide` sums.
    """
    import jax.numpy as jnp

    given = tensor.quantization
    if given is None or tensor.dtype.kind not in "iu" or (tensor.dtype.itemsize > 2 and not wide):
        return value
    scales, zeros = _parameters(given, len(tensor.shape))
    return (jnp.asarray(value).astype(np.float32) - zeros) * scales


def centred(value: Any, tensor: TfliteTensor) -> Any:
    """A tensor's integers less their zero point, as f32; others as they are."""
    import jax.numpy as jnp

    given = tensor.quantization
    if given is None or tensor.dtype.kind not in "iu":
        return value
    _, zeros = _parameters(given, len(tensor.shape))
    whole = jnp.asarray(value).astype(np.float32)
    return whole - zeros if zeros.any() else whole


def quantized(value: Any, tensor: TfliteTensor) -> Any:
    """Real numbers as a tensor's integers, the nearest that there are; others as they are."""
    import jax.numpy as jnp
    from jax import lax

    given = tensor.quantization
    if given is None or tensor.dtype.kind not in "iu" or tensor.dtype.itemsize > 2:
        return value
    scales, zeros = _parameters(given, len(tensor.shape))
    limits = np.iinfo(tensor.dtype)
    steps = jnp.round(jnp.asarray(value).astype(np.float32) / scales) + zeros
    low, high = np.float32(limits.min), np.float32(limits.max)
    return lax.clamp(low, steps, high).astype(tensor.dtype)


def _parameters(given: Quantization, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zero points (both f32) in a shape that fits a tensor of this rank."""
    shape = [1] * rank
    if len(given.scales) > 1:
        shape[given.axis] = len(given.scales)
    scales = np.array(given.scales, np.float32).reshape(shape)
    return scales, np.array(given.zero_points, np.float32).reshape(shape)
