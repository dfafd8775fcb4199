"""Example inputs for a package's first program: the golden answers' own, written as numbers."""

import numpy as np

from edgec.packaging.bindings import BoundFunction
from edgec.packaging.plan import Plan
from edgec.runtime import DType

__all__ = ["example_values"]

_MOST = 4096


def example_values(plan: Plan, function: BoundFunction) -> list[list[str] | None]:
    """For each input its elements as literals that C, Java, Kotlin and Swift read alike.

    None for an input that the golden answers do not have, or have in another size (sizes chosen
    at each call are at their least here), or that is too long for a source file.
    """
    calls = plan.golden.calls if plan.golden is not None else ()
    call = next((c for c in calls if c.signature == function.signature.name), None)
    if call is None:
        return [None] * len(function.inputs)
    return [
        _literals(value, tensor.dtype)
        if value.size == tensor.elements and 0 < value.size <= _MOST
        else None
        for value, tensor in zip(call.inputs, function.inputs, strict=True)
    ]


def _literals(value: np.ndarray, dtype: DType) -> list[str] | None:
    flat = np.ascontiguousarray(value).reshape(-1)
    if dtype in (DType.F16, DType.BF16):
        return [str(bits) for bits in flat.view(np.uint16).tolist()]
    if dtype in (DType.C64, DType.C128):
        flat = flat.view(np.float32 if dtype is DType.C64 else np.float64)
    if not dtype.is_float:
        return [str(int(number)) for number in flat.tolist()]
    if not np.isfinite(flat).all():
        return None
    return [f"{number:.9g}" if dtype.bits == 32 else repr(number) for number in flat.tolist()]
