"""Covariances and correlations, in which torch's own code asks a tensor whether it may divide."""

from collections.abc import Callable
from typing import Any

__all__ = ["covariances"]


def covariances() -> Any:
    """A context in which `torch.cov` and `torch.corrcoef` decide nothing by a tensor's value."""
    import torch
    from torch.overrides import TorchFunctionMode

    ours: dict[Any, Callable[..., Any]] = {
        torch.cov: _cov,
        torch.Tensor.cov: _cov,
        torch.corrcoef: _corrcoef,
        torch.Tensor.corrcoef: _corrcoef,
    }

    class Covariances(TorchFunctionMode):  # type: ignore[misc]
        """Takes these in hand, and nothing else."""

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return ours.get(function, function)(*args, **(kwargs or {}))

    return Covariances()


def _cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Of variables by rows, observed in columns; as torch's, but for its checks of weights.

    Args:
        input: numbers, of at most two axes; one axis is one variable.
        correction: what is taken from the count of observations.
        fweights: how often each observation was made; integers.
        aweights: how much each observation counts.
    """
    import torch

    x = input if input.ndim == 2 else input.reshape(1, -1)
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(torch.get_default_dtype())
    weights = [w.to(x.real.dtype).reshape(-1) for w in (fweights, aweights) if w is not None]
    if not weights:
        count = x.shape[1]
        away = x - x.mean(1, keepdim=True)
        # Nothing to divide by: infinite, or no number where all are alike.
        found = away @ away.mH / (count - correction if count > correction else 0.0)
        return found if input.ndim == 2 else found.reshape(())
    weight = weights[0] if len(weights) == 1 else weights[0] * weights[1]
    total = weight.sum()
    away = x - (x * weight).sum(1, keepdim=True) / total
    taken = (weight * weights[-1]).sum() / total if aweights is not None else 1
    divisor = torch.clamp_min(total - correction * taken, 0)
    found = (away * weight) @ away.mH / divisor
    return found if input.ndim == 2 else found.reshape(())


def _corrcoef(input: Any) -> Any:
    """Covariances by both variables' deviations, in -1 to 1."""
    import torch

    found = _cov(input)
    if found.ndim == 0:
        return found / found
    deviation = torch.sqrt(found.diagonal().real)
    found = found / deviation[:, None] / deviation[None, :]
    if found.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)
