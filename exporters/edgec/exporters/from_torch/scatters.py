"""PyTorch's scatters that combine, as StableHLO's, whose passes in torch-mlir die of many.

An operation of its own (`edgec::combine`) stands for one in the graph; it is cut out before the
graph is lowered, and put back as `stablehlo.scatter`.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["OPERATION", "CombineCut", "scatters"]

OPERATION = "edgec.combine"
"""How the operation's name begins in a graph."""

_COMBINING = {"sum": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def scatters() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.scatter_reduce.two: _scatter_reduce,
        aten.scatter.reduce: lambda x, dim, index, src, *, reduce: _scatter_reduce(
            x, dim, index, src, _OLD[reduce]
        ),
        aten.scatter.value_reduce: lambda x, dim, index, value, *, reduce: _scatter_reduce(
            x, dim, index, x.new_full(index.shape, value), _OLD[reduce]
        ),
        aten.index_reduce.default: _index_reduce,
        aten.diagonal_scatter.default: _diagonal_scatter,
    }


_OLD = {"add": "sum", "multiply": "prod"}


@dataclass(frozen=True, kw_only=True)
class CombineCut:
    """A scatter that was cut out.

    Attributes:
        how: StableHLO's name of what combines two numbers.
    """

    how: str

    @classmethod
    def of(cls, node: Any) -> "CombineCut":
        """The cut of a node."""
        return cls(how=node.args[1])

    @property
    def reads(self) -> int:
        """How many tensors it reads."""
        return 3

    @property
    def writes(self) -> int:
        """How many tensors it writes."""
        return 1

    def build(self, module: Any, operands: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        """`stablehlo.scatter` of single elements."""
        from iree.compiler import ir

        shaped = ir.RankedTensorType(types[0])
        axes = ", ".join(str(axis) for axis in range(shaped.rank))
        numbers = (
            f"#stablehlo.scatter<inserted_window_dims = [{axes}], "
            f"scatter_dims_to_operand_dims = [{axes}], index_vector_dim = 1>"
        )
        made = ir.Operation.create(
            "stablehlo.scatter",
            results=list(types),
            operands=list(operands),
            attributes={
                "scatter_dimension_numbers": ir.Attribute.parse(numbers),
                "indices_are_sorted": ir.BoolAttr.get(False),
                "unique_indices": ir.BoolAttr.get(False),
            },
            regions=1,
        )
        number = ir.RankedTensorType.get([], shaped.element_type)
        place = ir.Location.unknown()
        body = ir.Block.create_at_start(made.regions[0], [number, number], [place, place])
        with ir.InsertionPoint(body):
            both = ir.Operation.create(
                f"stablehlo.{self.how}", results=[number], operands=list(body.arguments)
            )
            ir.Operation.create("stablehlo.return", operands=[both.result])
        return [made.result]


def _scatter_reduce(
    x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    import torch

    if x.is_complex() or not all(isinstance(size, int) for size in (*x.shape, *index.shape)):
        return NotImplemented
    if not x.ndim:
        x, index, src = x.reshape(1), index.reshape(-1), src.reshape(-1)
        found = _scatter_reduce(x, 0, index, src, reduce, include_self=include_self)
        return found.reshape([])
    for axis, size in enumerate(index.shape):
        src = src.narrow(axis, 0, size)
    src = src.to(x.dtype)
    places = [
        torch.arange(size, device=x.device).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        for axis, size in enumerate(index.shape)
    ]
    places[dim % x.ndim] = index
    flat = torch.stack([place.expand(index.shape).reshape(-1) for place in places], 1)
    flat = flat.to(torch.int32)

    def combined(base: Any, updates: Any, how: str) -> Any:
        return _operation()([base, flat, updates.reshape(-1)], how)[0]

    if not include_self:
        touched = combined(torch.zeros_like(x), torch.ones_like(src), "maximum") != 0
        x = torch.where(touched, _identity(x, reduce), x)
    if reduce != "mean":
        return combined(x, src, _COMBINING[reduce])
    counts = torch.ones_like(x) if include_self else torch.zeros_like(x)
    counts = combined(counts, torch.ones_like(src), "add").clamp(min=1)
    total = combined(x, src, "add")
    if x.dtype.is_floating_point:
        return total / counts
    return torch.div(total, counts, rounding_mode="floor")


def _identity(x: Any, reduce: str) -> Any:
    """What changes nothing."""
    import torch

    if reduce in ("sum", "mean"):
        return x.new_zeros(())
    if reduce == "prod":
        return x.new_ones(())
    if x.dtype.is_floating_point:
        return x.new_full((), -math.inf if reduce == "amax" else math.inf)
    bounds = torch.iinfo(x.dtype)
    return x.new_full((), bounds.min if reduce == "amax" else bounds.max)


def _index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A whole slice for each index."""
    if not x.ndim:
        return NotImplemented
    spread = [1] * x.ndim
    spread[dim] = -1
    places = index.reshape(spread).expand(source.shape)
    return _scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def _diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A choice: where row and column lie on the diagonal."""
    import torch

    rest = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = (torch.arange(size, device=x.device) for size in rest.shape[-2:])
    on = columns == rows.unsqueeze(-1) + offset
    number = (rows + min(offset, 0)).clamp(0, src.shape[-1] - 1)
    spread = src.index_select(-1, number).unsqueeze(-1)
    return torch.where(on, spread, rest).movedim((-2, -1), (dim1, dim2))


@functools.cache
def _operation() -> Any:
    import torch

    def combine(parts: Sequence[torch.Tensor], how: str) -> list[torch.Tensor]:
        base, places, updates = parts
        flat = torch.zeros_like(places[:, 0], dtype=torch.int64)
        for axis, size in enumerate(base.shape):
            flat = flat * size + places[:, axis]
        name = next(name for name, other in _COMBINING.items() if other == how)
        found = base.reshape(-1).scatter_reduce(0, flat, updates, name)
        return [found.reshape(base.shape).clone()]

    made: Any = torch.library.custom_op(
        "edgec::combine",
        combine,
        mutates_args=(),
        schema="(Tensor[] parts, str how) -> Tensor[]",
    )
    made.register_fake(lambda parts, how: [parts[0].new_empty(parts[0].shape)])
    return made
