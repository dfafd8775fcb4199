"""The activations of ONNX' recurrent layers, by the names that only they use, as operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["Activation", "activations_of"]

Write = Callable[..., str]
"""Writes an operation: kind, inputs, attributes; its output."""

Number = Callable[[float], str]
"""Writes a number; its name."""


@dataclass(frozen=True, kw_only=True)
class Activation:
    """A function of one value, with the numbers that it has."""

    name: str
    alpha: float
    beta: float

    def written(self, write: Write, number: Number, value: str) -> str:
        """The operations on a value; the result."""
        if self.name == "affine":
            return write("Add", write("Mul", value, number(self.alpha)), number(self.beta))
        if self.name == "scaledtanh":
            inner = write("Tanh", write("Mul", value, number(self.beta)))
            return write("Mul", inner, number(self.alpha))
        kind, takes = _OPERATIONS[self.name]
        return write(kind, value, **{name: getattr(self, name) for name in takes})


_OPERATIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "elu": ("Elu", ("alpha",)),
    "hardsigmoid": ("HardSigmoid", ("alpha", "beta")),
    "leakyrelu": ("LeakyRelu", ("alpha",)),
    "relu": ("Relu", ()),
    "sigmoid": ("Sigmoid", ()),
    "softplus": ("Softplus", ()),
    "softsign": ("Softsign", ()),
    "tanh": ("Tanh", ()),
    "thresholdedrelu": ("ThresholdedRelu", ("alpha",)),
}

_ALPHAS = {"affine": 1.0, "elu": 1.0, "hardsigmoid": 0.2, "leakyrelu": 0.01, "scaledtanh": 1.0} | {
    "thresholdedrelu": 1.0
}
_BETAS = {"affine": 0.0, "hardsigmoid": 0.5, "scaledtanh": 1.0}
"""What a number is where the layer does not say it, for activations that have one."""

_USUAL = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}


def activations_of(kind: str, given: Mapping[str, Any]) -> list[Activation]:
    """Those of a layer with these attributes, for one direction after another.

    Alphas and betas are lists of their own, of which each activation that has one takes the next.

    Raises:
        UnsupportedOp: ONNX has no such activation.
    """
    both = given.get("direction", "forward") == "bidirectional"
    names = [
        name.decode() if isinstance(name, bytes) else name
        for name in given.get("activations", _USUAL[kind] * (1 + both))
    ]
    alphas, betas = list(given.get("activation_alpha", ())), list(given.get("activation_beta", ()))
    found = []
    for name in map(str.lower, names):
        if name not in _OPERATIONS and name not in ("affine", "scaledtanh"):
            raise UnsupportedOp(
                f"a recurrent layer has the activation {name}, which ONNX does not define",
                hint=f"it defines {', '.join(sorted({*_OPERATIONS, 'affine', 'scaledtanh'}))}",
            )
        alpha, beta = _ALPHAS.get(name, 0.0), _BETAS.get(name, 0.0)
        if name in _ALPHAS and alphas:
            alpha = alphas.pop(0)
        if name in _BETAS and betas:
            beta = betas.pop(0)
        found.append(Activation(name=name, alpha=alpha, beta=beta))
    return found
