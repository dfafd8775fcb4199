"""Dynamic dimensions between edgec (`Dim`), torch.export's own form and torch's symbols."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch.numbers import said_plainly
from edgec.runtime.signature import Dim

__all__ = ["Symbols", "named_axes", "torch_shapes", "trace_sizes"]


def trace_sizes(
    shapes: Sequence[Sequence[int | Dim]], examples: Sequence[Sequence[int]]
) -> dict[str, int]:
    """The size to trace each dimension at: the example's, but never 1, which torch would fix."""
    sizes: dict[str, int] = {}
    for shape, example in zip(shapes, examples, strict=True):
        for dim, size in zip(shape, example, strict=True):
            if isinstance(dim, Dim):
                top = size + 2 if dim.maximum is None else dim.maximum
                sizes[dim.name] = size if size > 1 else min(max(2, dim.minimum), top)
    return sizes


def torch_shapes(tensors: Sequence[Any], shapes: Sequence[Sequence[int | Dim]]) -> Any:
    """`torch.export`'s `dynamic_shapes` for inputs of these shapes; None if all are static.

    Args:
        tensors: the input tensors, the very objects that are given to `torch.export`.
        shapes: the shape of each.
    """
    from torch.export import Dim as TorchDim
    from torch.export import ShapesCollection

    made: dict[str, Any] = {}
    collection = ShapesCollection()
    for tensor, shape in zip(tensors, shapes, strict=True):
        axes: dict[int, Any] = {}
        for axis, dim in enumerate(shape):
            if isinstance(dim, Dim):
                if dim.name not in made:
                    made[dim.name] = TorchDim(dim.name, min=dim.minimum, max=dim.maximum)
                axes[axis] = made[dim.name]
        if axes:
            collection[tensor] = axes
    return collection if made else None


def named_axes(value: Any, spec: Any) -> list[dict[int, str]]:
    """The names that `torch.export`'s own form of dynamic shapes gives to axes, for each tensor.

    Args:
        value: nested arguments.
        spec: what the user gave for them: nested alike, a tensor's as a dict or sequence by axis.
    """
    if hasattr(value, "detach"):
        pairs = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        return [{a: d.__name__ for a, d in pairs if hasattr(d, "__name__")}]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
        value = [child for child in value if child is not None]
    if isinstance(value, Mapping):
        given = spec if isinstance(spec, Mapping) else {}
        return [axes for key, v in value.items() for axes in named_axes(v, given.get(key))]
    if isinstance(value, list | tuple):
        by_position = list(spec) if isinstance(spec, list | tuple) else [None] * len(value)
        by_position += [None] * (len(value) - len(by_position))
        both = zip(value, by_position, strict=False)
        return [axes for child, given in both for axes in named_axes(child, given)]
    return []


class Symbols:
    """The named dimension that each of torch's symbols stands for in one exported program."""

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self._ranges = dict(ranges)
        self._dims: dict[Any, Dim] = {}

    def learn(self, value: Any, shape: Sequence[int | Dim]) -> None:
        """Note which symbols an input's named dimensions are."""
        for size, dim in zip(value.shape, shape, strict=True):
            if isinstance(dim, Dim) and not isinstance(size, int):
                self._dims[size.node.expr] = dim

    def name(self, value: Any, axes: Mapping[int, str]) -> None:
        """Note what the user calls the symbols of an input."""
        for axis, name in axes.items():
            size = value.shape[axis]
            if not isinstance(size, int) and size.node.expr.is_symbol:
                found = self._dim(size.node.expr)
                if isinstance(found, Dim):
                    self._dims[size.node.expr] = Dim(
                        name=name, minimum=found.minimum, maximum=found.maximum
                    )

    def shape(self, value: Any) -> tuple[int | Dim, ...]:
        """The shape of a value in the graph, with named dimensions or formulas over them."""
        return tuple(s if isinstance(s, int) else self._dim(s.node.expr) for s in value.shape)

    def _dim(self, expression: Any) -> int | Dim:
        from torch.utils._sympy.value_ranges import bound_sympy

        if expression.is_number:
            return int(expression)
        if expression in self._dims:
            return self._dims[expression]
        names = {
            symbol: str(self._dims[symbol].name if symbol in self._dims else symbol)
            for symbol in expression.free_symbols
        }
        bounds = bound_sympy(expression, {s: self._range(s) for s in expression.free_symbols})
        text = str(expression.xreplace({s: type(s)(n) for s, n in names.items()}))
        dim = Dim(
            name=said_plainly(text.replace(" ", "")),
            minimum=max(0, _finite(bounds.lower) or 0),
            maximum=_finite(bounds.upper),
        )
        self._dims[expression] = dim
        return dim

    def _range(self, symbol: Any) -> Any:
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import ValueRanges

        dim = self._dims.get(symbol)
        if dim is not None:
            return ValueRanges(dim.minimum, int_oo if dim.maximum is None else dim.maximum)
        return self._ranges.get(symbol, ValueRanges(0, int_oo))


def _finite(bound: Any) -> int | None:
    return int(bound) if bound.is_Integer and int(bound) < 2**62 else None
