"""A seed to a model's weights: the same arrays, whichever framework asks for them."""

import zlib
from collections.abc import Sequence

import numpy as np

__all__ = ["Weights"]


class Weights:
    """Random arrays by name, each made once; a name always gives the same numbers.

    Scales keep activations near 1 through deep networks, so that errors mean something.
    """

    def __init__(self, known: dict[str, np.ndarray] | None = None) -> None:
        """`known` holds real weights by name; they are used instead of random ones."""
        self._known = dict(known or {})
        self._made: dict[str, np.ndarray] = {}

    def kernel(self, name: str, shape: Sequence[int], gain: float = 1.0) -> np.ndarray:
        """Normal, of variance gain² / inputs; the last axis is the output's, the rest inputs."""
        inputs = int(np.prod(shape[:-1]))
        return self._array(name, shape, gain / np.sqrt(inputs))

    def bias(self, name: str, size: int) -> np.ndarray:
        """Normal, small."""
        return self._array(name, (size,), 0.05)

    def scale(self, name: str, size: int) -> np.ndarray:
        """Near 1."""
        return self._array(name, (size,), 0.05, middle=1.0)

    def table(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """Embeddings: normal."""
        return self._array(name, shape, 0.5)

    def _array(
        self, name: str, shape: Sequence[int], deviation: float, middle: float = 0.0
    ) -> np.ndarray:
        if name not in self._made:
            self._made[name] = self._known_or_random(name, tuple(shape), deviation, middle)
        return self._made[name]

    def _known_or_random(
        self, name: str, shape: tuple[int, ...], deviation: float, middle: float
    ) -> np.ndarray:
        if self._known:
            array = self._known[name]
            if array.shape != shape:
                raise ValueError(f"{name} is {array.shape}, the model asks for {shape}")
            return array
        random = np.random.default_rng(zlib.crc32(name.encode()))
        drawn = random.standard_normal(shape, dtype=np.float32)
        return (drawn * np.float32(deviation) + np.float32(middle)).astype(np.float32)
