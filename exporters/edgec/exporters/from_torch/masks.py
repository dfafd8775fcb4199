"""Numbers put where a mask is true, as choices; a list of the places has no fixed size."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["masks"]


def masks() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {aten.index_put.default: _index_put, aten.masked_scatter.default: _masked_scatter}


def _index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """One mask of the first axes, and values for what it chooses."""
    import torch

    mask = indices[0]
    if len(indices) > 1 or mask is None or mask.dtype != torch.bool:
        return NotImplemented
    values = values.to(x.dtype)
    inner = x.shape[mask.ndim :]
    spread = mask.reshape([*mask.shape, *[1] * len(inner)])
    if values.ndim > len(inner) and values.shape[0] != 1:
        values = _in_turn(mask, values.expand(values.shape[0], *inner)).reshape(x.shape)
    elif values.ndim > len(inner):
        values = values.squeeze(0)
    return torch.where(spread, x + values if accumulate else values, x)


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The source's numbers in their order, where the mask is true."""
    import torch

    shape = torch.broadcast_shapes(x.shape, mask.shape)
    x, mask = x.expand(shape), mask.expand(shape)
    if not source.numel():
        return x.clone()
    return torch.where(mask, _in_turn(mask, source.reshape(-1)).reshape(shape), x)


def _in_turn(mask: Any, rows: Any) -> Any:
    """Of each place of a mask, the row that is its turn: as many as are true before it."""
    import torch

    turn = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    return rows.index_select(0, turn.clamp(0, rows.shape[0] - 1))
