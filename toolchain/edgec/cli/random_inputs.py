"""A signature to inputs for measuring: random numbers, the same for the same seed."""

from collections.abc import Mapping

import numpy as np

from edgec.cli.memory import refuse_too_big
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError
from edgec.runtime.signature import Dim, Signature, TensorSpec

__all__ = ["random_inputs", "sizes_of"]


def random_inputs(
    signature: Signature, *, seed: int, sizes: Mapping[str, int]
) -> tuple[np.ndarray, ...]:
    """One array an input: floats from the normal distribution, integers 0 or 1, bools either.

    Integers stay small because most are indices or masks, and a large index reads elsewhere.

    Args:
        signature: the function.
        seed: of the generator.
        sizes: what named dimensions are; of the others, the smallest size of at least one.

    Raises:
        InputError: an input is larger than this machine's memory, or a size is out of bounds.
    """
    generator = np.random.default_rng(seed)
    return tuple(_random(spec, generator, sizes) for spec in signature.inputs)


def sizes_of(signature: Signature) -> dict[str, int]:
    """What `random_inputs` takes for each named dimension."""
    return {
        dim.name: _smallest(dim)
        for spec in signature.inputs
        for dim in spec.shape
        if isinstance(dim, Dim)
    }


def _random(
    spec: TensorSpec, generator: np.random.Generator, sizes: Mapping[str, int]
) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else sizes.get(d.name, _smallest(d)) for d in spec.shape)
    spec.check(shape, {})
    refuse_too_big(str(spec), shape, spec.dtype)
    if spec.dtype in (DType.C64, DType.C128):
        values = generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
        return np.asarray(values).astype(spec.dtype.numpy)
    if spec.dtype.is_float:
        return np.asarray(generator.standard_normal(shape, np.float32)).astype(spec.dtype.numpy)
    return np.asarray(generator.integers(0, 2, shape)).astype(spec.dtype.numpy)


def _smallest(dim: Dim) -> int:
    if dim.maximum == 0:
        raise InputError(f"the dimension {dim} holds nothing to measure")
    return max(1, dim.minimum)
