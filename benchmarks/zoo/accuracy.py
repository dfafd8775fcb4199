"""What golden answers can prove: a constant or a NaN is easily right."""

import numpy as np

from edgec.runtime import Golden, GoldenCall
from edgec.runtime.dtypes import DType
from edgec.runtime.tolerance import SMALLEST_NORMAL

__all__ = ["proofs"]


def proofs(golden: Golden) -> str:
    """Empty if some answer varies, and is settled; else what all of them are."""
    kinds = {
        _kind(array) or ("not settled" if _is_loose(call, number) else "")
        for call in golden.calls
        for number, array in enumerate(call.outputs)
    }
    return "" if "" in kinds else ", ".join(sorted(kinds)) or "no answers"


def _is_loose(call: GoldenCall, number: int) -> bool:
    """Whether an output may be off by a tenth of its largest value, or is all ties."""
    if call.open and call.open[number].all():
        return True
    answer = call.outputs[number]
    if not call.within or answer.dtype.kind == "c":
        return False
    sizes = np.abs(answer.astype(np.float64))
    most = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
    return call.within[number] > most / 10


def _kind(array: np.ndarray) -> str:
    if not array.size:
        return "empty"
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if not np.isfinite(wide).any():
        return "not finite"
    if wide.any() and np.nanmax(np.abs(wide)) < SMALLEST_NORMAL.get(DType.of(array.dtype), 0.0):
        return "denormal"
    if array.size == 1:
        return ""
    return "constant" if np.ptp(np.abs(wide[np.isfinite(wide)])) == 0 else ""
