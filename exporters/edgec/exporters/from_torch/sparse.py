"""A model's sparse weights (CSR, COO, BSR …) as dense ones with their zeros, while it is exported.

Neither torch.export nor StableHLO has sparse tensors. What they compute is what dense ones do, so
the program has these; where few of a matrix's numbers are not zero, the compiler's kernel for such
products reads and multiplies these alone again (docs/benchmarks_sparse.md).
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["dense_weights", "is_about_sparse"]

_LOG = logging.getLogger("edgec.exporters")
_MOST = 2 << 30
"""Bytes of a dense weight: what a file of a program holds."""


@contextlib.contextmanager
def dense_weights(owner: Any) -> Iterator[None]:
    """Give a module dense buffers and parameters in the place of sparse ones, for a time.

    Raises:
        UnsupportedOp: one would be larger than a program holds.
    """
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    dense: dict[int, Any] = {}
    try:
        for prefix, module in owner.named_modules():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is None or _is_strided(tensor):
                        continue
                    full = f"{prefix}.{name}" if prefix else name
                    if id(tensor) not in dense:
                        dense[id(tensor)] = _dense(tensor, full)
                    replaced.append((held, name, tensor))
                    held[name] = dense[id(tensor)]
        yield
    finally:
        for held, name, tensor in replaced:
            held[name] = tensor


def is_about_sparse(text: str) -> bool:
    """Whether PyTorch speaks of a sparse tensor that it cannot trace."""
    return any(word in text for word in ("Sparse CSR", "SparseCsrTensorImpl", "SparseTensorImpl"))


def _is_strided(tensor: Any) -> bool:
    import torch

    return bool(tensor.layout is torch.strided)


def _dense(tensor: Any, name: str) -> Any:
    import torch

    if tensor.numel() * tensor.element_size() > _MOST:
        raise UnsupportedOp(
            f"the sparse weight {name} would be {tensor.numel() * tensor.element_size():,} bytes "
            "with its zeros, and a program has no other form of it",
            hint="write the product in JAX with jax.experimental.sparse, which stays sparse",
        )
    made = tensor.detach().to_dense()
    kept = int(torch.count_nonzero(made)) / max(made.numel(), 1)
    _LOG.warning(
        "the weight %s is sparse (%s, %.0f %% not zero); the program has it with its zeros",
        name,
        str(tensor.layout).removeprefix("torch."),
        100 * kept,
    )
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad) if is_parameter else made
