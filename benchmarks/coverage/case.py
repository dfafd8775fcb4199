"""One row of the coverage table: a small model of one framework, and what it is to show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.exporters import Bundle

__all__ = ["Case", "Given", "Source", "integers", "normal"]


@dataclass(frozen=True, kw_only=True)
class Given:
    """A model with example inputs, as `edgec.exporters.export` takes them."""

    model: Any
    inputs: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    dynamic: Any = None
    external_weights: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model file or folder that the case wrote into the current folder."""

    text: str
    signatures: Sequence[str] = ()
    dynamic: Sequence[str] = ()


@dataclass(frozen=True)
class Case:
    """One model. `build` makes it, in a process of its own whose current folder is empty."""

    name: str
    dtype: str
    build: Callable[[], Given | Bundle | Source]


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Normally distributed f32; for weights, give `scale` about 1/sqrt(inputs)."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (values * scale).astype(np.float32)


def integers(high: int, *shape: int, low: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Integers from `low` up to but not including `high`."""
    return np.random.default_rng([high, *shape]).integers(low, high, shape).astype(dtype)
