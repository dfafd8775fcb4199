"""Example inputs where a model file tells only shapes: small, repeatable, harmless numbers."""

import zlib
from collections.abc import Mapping

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.signature import TensorSpec

__all__ = ["example_array"]


def example_array(spec: TensorSpec, sizes: Mapping[str, int] | None = None) -> np.ndarray:
    """An array for a tensor: normal floats, integers 0 to 3, mixed bools; the same every time.

    Args:
        spec: name, shape and dtype.
        sizes: what each named dimension stands for; else 2, as far as its bounds allow.
    """
    shape = []
    for dim in spec.shape:
        if isinstance(dim, int):
            shape.append(dim)
            continue
        size = (sizes or {}).get(dim.name, max(2, dim.minimum))
        shape.append(size if dim.maximum is None else min(size, dim.maximum))
    random = np.random.default_rng(zlib.crc32(spec.name.encode()))
    dtype = spec.dtype.numpy
    if spec.dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if not spec.dtype.is_float:
        return random.integers(0, 4, shape).astype(dtype)
    if spec.dtype in (DType.C64, DType.C128):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
