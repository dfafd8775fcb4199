"""What golden answers can prove: a constant or a NaN is easily right."""

import numpy as np

from edgec.runtime import Golden

__all__ = ["proofs"]


def proofs(golden: Golden) -> str:
    """Empty if some answer varies; else what all of them are."""
    kinds = {_kind(array) for call in golden.calls for array in call.outputs}
    return "" if "" in kinds else ", ".join(sorted(kinds)) or "no answers"


def _kind(array: np.ndarray) -> str:
    if not array.size:
        return "empty"
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if not np.isfinite(wide).any():
        return "not finite"
    if array.size == 1:
        return ""
    return "constant" if np.ptp(np.abs(wide[np.isfinite(wide)])) == 0 else ""
