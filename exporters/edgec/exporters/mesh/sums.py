"""Sums over devices behind products, as Shardy's last pass expects them: else it ends the process.

Shardy names the mesh's axes in the mesh's order, and the pass wants that in which the factors are
cut along them; from jaxlib 0.11 on it wants to be told that the product itself is not summed along
them. On jaxlib's bindings; in the child (`shardy`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from edgec.exporters.mesh.whole import sharding_of
from edgec.toolchain.ir.functions import inside

__all__ = ["order_sums"]


def order_sums(functions: Iterable[Any], names: Sequence[str]) -> None:
    """Name the axes of products' sums in the order in which left factors are cut, in place.

    Args:
        functions: of the program.
        names: the mesh's axes, in its order, which notes of what is not summed are in.
    """
    from jaxlib.mlir import ir

    for function in functions:
        for operation in inside(function):
            if operation.name != "stablehlo.dot_general":
                continue
            factor = sharding_of(operation.operands[0])
            if factor is None:
                continue
            _order_pairs(operation, factor, names)
            summed = _summed_along(operation, factor)
            text = ", ".join(f'"{axis.name}"' for axis in summed)
            for use in operation.results[0].uses:
                summing = use.owner.operation
                if summing.name == "sdy.all_reduce":
                    axes = ir.Attribute.parse(f"#sdy<axis_ref_list{{{text}}}>")
                    if _set(axes) == _set(summing.attributes["reduction_axes"]):
                        summing.attributes["reduction_axes"] = axes
            if summed:
                summed.sort(key=lambda axis: names.index(axis.name))
                _say_unsummed(operation, summed, factor.mesh_or_ref)


def _order_pairs(product: Any, factor: Any, names: Sequence[str]) -> None:
    """Sum first along what the mesh's first axes cut: in which order is all one to the sum."""
    from jaxlib.mlir.dialects import sdy, stablehlo

    numbers = stablehlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    dims = [sdy.DimensionShardingAttr(dim) for dim in factor.dimension_shardings]

    def place(pair: tuple[int, int]) -> int:
        axes = [names.index(sdy.AxisRefAttr(axis).name) for axis in dims[pair[0]].axes]
        return min(axes, default=len(names))

    left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    pairs = sorted(zip(left, right, strict=True), key=place)
    product.attributes["dot_dimension_numbers"] = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=numbers.lhs_batching_dimensions,
        rhs_batching_dimensions=numbers.rhs_batching_dimensions,
        lhs_contracting_dimensions=[one for one, _ in pairs],
        rhs_contracting_dimensions=[other for _, other in pairs],
    )


def _say_unsummed(product: Any, axes: Sequence[Any], mesh: Any) -> None:
    """Let a product's note say along which axes it is not summed, if it says so of none."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    sharding = sharding_of(product.results[0])
    if sharding is not None and len(list(sharding.unreduced_axes)):
        return
    rank = ir.RankedTensorType(product.results[0].type).rank
    whole = [sdy.DimensionShardingAttr.get([], is_closed=True)] * rank
    dims = whole if sharding is None else sharding.dimension_shardings
    told = sdy.TensorShardingAttr.get(mesh, dims, unreduced_axes=axes)
    product.attributes["sdy.sharding"] = sdy.TensorShardingPerValueAttr.get([told])


def _summed_along(product: Any, factor: Any) -> list[Any]:
    """The axes along which what is summed is cut, as the left factor is."""
    from jaxlib.mlir.dialects import sdy, stablehlo

    numbers = stablehlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    dims = [sdy.DimensionShardingAttr(dim) for dim in factor.dimension_shardings]
    return [
        sdy.AxisRefAttr(axis)
        for place in numbers.lhs_contracting_dimensions
        for axis in dims[place].axes
    ]


def _set(axes: Any) -> set[str]:
    written = str(axes)
    return set(written[written.index("{") + 1 : written.rindex("}")].split(", "))
