"""The shapes of a JAX function's inputs: static, in edgec's named ranges, or in JAX symbols."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.dynamic import Dynamic
from edgec.exporters.from_jax.arguments import Leaf
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ExportError, InputError
from edgec.runtime.signature import Dim, TensorSpec

__all__ = ["InputShapes", "choose_shapes"]


@dataclass(frozen=True, kw_only=True)
class InputShapes:
    """What each input looks like to edgec (`inputs`) and to JAX (`specs`).

    `dims` are the named dimensions, `sizes` what they stand for in the example.
    """

    inputs: tuple[TensorSpec, ...]
    specs: list[Any]
    dims: Mapping[str, Dim]
    sizes: Mapping[str, int]

    def named(self, shape: Sequence[Any]) -> tuple[int | Dim, ...]:
        """A shape that JAX computed, with its symbols as named ranges."""
        return tuple(d if isinstance(d, int) else self._dim(d) for d in shape)

    def _dim(self, symbol: Any) -> Dim:
        return self.dims.get(str(symbol)) or _dim_of_symbol(symbol)


def choose_shapes(leaves: Sequence[Leaf], dynamic: Dynamic) -> InputShapes:
    """Decide which dimensions are dynamic.

    JAX's own symbols (a `ShapeDtypeStruct` with `jax.export.symbolic_shape`) go first; then
    `dynamic` is not looked at.

    Raises:
        ExportError: an element type that edgec has not.
        UsageError: `dynamic` does not fit the examples.
    """
    import jax

    symbolic = any(not isinstance(d, int) for leaf in leaves for d in leaf.value.shape)
    if symbolic:
        shapes = [tuple(leaf.value.shape) for leaf in leaves]
        named = [
            tuple(d if isinstance(d, int) else _dim_of_symbol(d) for d in shape) for shape in shapes
        ]
    else:
        chosen = dynamic.shapes({leaf.name: leaf.value.shape for leaf in leaves})
        named = [chosen[leaf.name] for leaf in leaves]
        shapes = _symbols(named)
    dims = {d.name: d for shape in named for d in shape if isinstance(d, Dim)}
    inputs = tuple(
        TensorSpec(name=leaf.name, shape=shape, dtype=_dtype(leaf))
        for leaf, shape in zip(leaves, named, strict=True)
    )
    return InputShapes(
        inputs=inputs,
        specs=[
            jax.ShapeDtypeStruct(shape, leaf.value.dtype, weak_type=leaf.weak)
            for leaf, shape in zip(leaves, shapes, strict=True)
        ],
        dims=dims,
        sizes=_sizes(leaves, named),
    )


def _symbols(shapes: Sequence[tuple[int | Dim, ...]]) -> list[tuple[Any, ...]]:
    """JAX's symbols for named ranges, all of one scope."""
    from jax import export

    dims = {d.name: d for shape in shapes for d in shape if isinstance(d, Dim)}
    if not dims:
        return [tuple(shape) for shape in shapes]
    constraints = [f"{d.name} >= {d.minimum}" for d in dims.values() if d.minimum > 1]
    constraints += [f"{d.name} <= {d.maximum}" for d in dims.values() if d.maximum is not None]
    made = export.symbolic_shape(", ".join(dims), constraints=constraints)
    symbols = dict(zip(dims, made, strict=True))
    return [tuple(symbols[d.name] if isinstance(d, Dim) else d for d in shape) for shape in shapes]


def _sizes(leaves: Sequence[Leaf], shapes: Sequence[tuple[int | Dim, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for leaf, shape in zip(leaves, shapes, strict=True):
        for dim, size in zip(shape, leaf.value.shape, strict=True):
            if isinstance(dim, Dim):
                known = size if isinstance(size, int) else max(2, dim.minimum)
                if dim.maximum is not None:
                    known = min(known, dim.maximum)
                sizes.setdefault(dim.name, known)
    return sizes


def _dim_of_symbol(symbol: Any) -> Dim:
    from jax._src.export.shape_poly_decision import BoundsPrecision, bounds_decision

    low, high = bounds_decision(symbol, BoundsPrecision.BEST)
    return Dim(
        name=str(symbol),
        minimum=max(0, int(low)) if math.isfinite(low) else 0,
        maximum=int(high) if math.isfinite(high) else None,
    )


def _dtype(leaf: Leaf) -> DType:
    try:
        return DType.of(leaf.value.dtype)
    except InputError as error:
        raise ExportError(
            f"the input {leaf.name} has elements of type {leaf.value.dtype}, which edgec has not",
            hint="cast it to one of " + ", ".join(d.value for d in DType),
        ) from error
