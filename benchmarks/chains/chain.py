"""A seed to a small program: a few operations behind each other, of sizes that nobody chose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.chains.steps import BEGINNINGS, SIZES, STEPS, Drawing, Step

__all__ = ["ELEMENTS", "Chain", "drawn"]

ELEMENTS = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(jnp.bfloat16),
}
"""Types that a chain may have, by their names."""

_MOST_STEPS = 4
_GRADIENTS = 0.25
_BOTH = 0.3
"""How often the first value is a result, too, as what a kernel hands on and keeps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """A program.

    Attributes:
        seed: what it was drawn by.
        element: the type of its values, one of `ELEMENTS`.
        label: its operations.
        arguments: what it is called with.
        steps: the operations.
        both: whether the first one's value is a result, too.
        gradient: whether it is the gradient by the first argument.
    """

    seed: int
    element: str = "f32"
    label: str
    arguments: tuple[np.ndarray, ...]
    steps: tuple[Step, ...]
    both: bool
    gradient: bool

    def __call__(self, *arguments: Any) -> Any:
        """The results, in JAX."""
        if self.gradient:
            return jax.grad(lambda first: self._loss(first, *arguments[1:]))(arguments[0])
        return self._forward(arguments)

    def _forward(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        value: Any = None
        values = []
        for step in self.steps:
            value = step.function(value, arguments)
            values.append(value)
        return (value, values[0]) if self.both else (value,)

    def _loss(self, *arguments: Any) -> Any:
        return sum(jnp.sum(jnp.sin(value)) for value in self._forward(arguments))


def drawn(seed: int, element: str = "f32", sizes: Sequence[int] = SIZES) -> Chain:
    """The chain of a seed; the same one each time, and of the same operations in each type.

    Args:
        seed: any number.
        element: one of `ELEMENTS`.
        sizes: those that arrays may have.
    """
    random = np.random.default_rng(seed)
    draw = Drawing(random=random, dtype=ELEMENTS[element], choices=sizes)
    beginning = BEGINNINGS[int(draw.random.integers(len(BEGINNINGS)))]
    steps = [beginning(draw)]
    for _ in range(int(draw.random.integers(1, _MOST_STEPS + 1))):
        step = STEPS[int(draw.random.integers(len(STEPS)))](draw, steps[-1].shape)
        if step is not None:
            steps.append(step)
    both, gradient = draw.random.random() < _BOTH, draw.random.random() < _GRADIENTS
    words = [*(step.label for step in steps), *["both"] * both, *["gradient"] * gradient]
    return Chain(
        seed=seed,
        element=element,
        label=" ".join(words),
        arguments=tuple(draw.arguments),
        steps=tuple(steps),
        both=both,
        gradient=gradient,
    )
