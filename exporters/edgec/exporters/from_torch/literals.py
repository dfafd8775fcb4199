"""Tensors written out in a torch graph to MLIR constants that portable bytecode can hold."""

from typing import Any

import numpy as np

from edgec.exporters.from_torch.values import to_numpy

__all__ = ["literals"]


def literals() -> Any:
    """Hooks for torch-mlir's importer that write tensors as plain dense constants.

    The importer's own way is a `dense_resource`, which StableHLO's portable form refuses.
    """
    from torch_mlir import ir
    from torch_mlir.extras import fx_importer

    class Literals(fx_importer.FxImporterHooks):  # type: ignore[misc]
        """Answers for tensors of more than one element; the importer does all else."""

        def resolve_literal(self, gni: Any, literal: Any, info: Any) -> Any:
            import torch

            if not isinstance(literal, torch.Tensor) or literal.numel() < 2:
                return None
            kind = fx_importer.TORCH_DTYPE_TO_MLIR_TYPE[literal.dtype]()
            array = np.ascontiguousarray(to_numpy(literal, "a constant"))
            attribute = ir.DenseElementsAttr.get(
                array.view(_carrier(array.dtype)), type=kind, shape=list(array.shape)
            )
            return ir.Operation.create(
                "torch.vtensor.literal",
                results=[gni._cc.tensor_to_vtensor_type(literal)],
                attributes={"value": attribute},
            ).result

    return Literals()


def _carrier(dtype: np.dtype) -> np.dtype:
    """The type that carries these bits through NumPy's buffer protocol, which has no bf16."""
    return np.dtype(np.int16) if dtype.kind == "V" else dtype
