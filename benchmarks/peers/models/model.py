"""What a benchmark model is: inputs, a definition over words, and weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from benchmarks.peers.nets.net import Input, Net, Value
from benchmarks.peers.weights import Weights

__all__ = ["Model", "Precision"]


class Precision(Enum):
    """What a model computes in. `tolerance` is how far off its answers may be.

    The tolerance is a part of the output's largest value; with random weights, 8 bits are good for
    a few percent.
    """

    F32 = "f32", 1e-4
    F16 = "f16", 2e-2
    I8 = "i8", 0.2

    def __init__(self, text: str, tolerance: float) -> None:
        self.text = text
        self.tolerance = tolerance


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model that every engine gets alike.

    Attributes:
        name: as on the command line.
        title: as in the table.
        inputs: its inputs, of batch 1.
        define: called with a net, weights and the inputs' values; gives the outputs.
        weights: makes the weights, random unless they are real ones.
        quick: whether it is in the quick run.
        precision: what it computes in. With I8, inputs and outputs are f32, weights are quantised
            by channel and activations by tensor; each engine gets its own usual form of that.
    """

    name: str
    title: str
    inputs: tuple[Input, ...]
    define: Callable[..., tuple[Value, ...]]
    weights: Callable[[], Weights] = Weights
    quick: bool = False
    precision: Precision = Precision.F32

    def example(self) -> list[np.ndarray]:
        """The inputs that all engines are measured on; images with the channels last."""
        return self.examples(1)[0]

    def examples(self, count: int) -> list[list[np.ndarray]]:
        """So many sets of inputs, to calibrate with; `example` is the first."""
        random = np.random.default_rng(7)
        floats = np.float16 if self.precision is Precision.F16 else np.float32
        return [[_draw(spec, random, floats) for spec in self.inputs] for _ in range(count)]

    def build(self, net: Net, weights: Weights, values: Sequence[Value]) -> tuple[Any, ...]:
        """The outputs, said in a framework."""
        return self.define(net, weights, *values)


def _draw(spec: Input, random: np.random.Generator, floats: type) -> np.ndarray:
    if spec.dtype == "int32":
        return random.integers(0, spec.below, spec.shape).astype(np.int32)
    return random.standard_normal(spec.shape).astype(floats)
