"""What a benchmark model is: inputs, a definition over words, and weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peers.nets.net import Input, Net, Value
from benchmarks.peers.weights import Weights

__all__ = ["Model"]


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
    """

    name: str
    title: str
    inputs: tuple[Input, ...]
    define: Callable[..., tuple[Value, ...]]
    weights: Callable[[], Weights] = Weights
    quick: bool = False

    def example(self) -> list[np.ndarray]:
        """The inputs that all engines are measured on; images with the channels last."""
        random = np.random.default_rng(7)
        return [_draw(spec, random) for spec in self.inputs]

    def build(self, net: Net, weights: Weights, values: Sequence[Value]) -> tuple[Any, ...]:
        """The outputs, said in a framework."""
        return self.define(net, weights, *values)


def _draw(spec: Input, random: np.random.Generator) -> np.ndarray:
    if spec.dtype == "int32":
        return random.integers(0, spec.below, spec.shape).astype(np.int32)
    return random.standard_normal(spec.shape).astype(np.float32)
