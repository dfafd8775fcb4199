"""Sums over devices behind products, with the mesh's axes in the order that Shardy expects.

It names them in the mesh's order, and its last pass ends the process where the factors are cut
along them in another one. On jaxlib's bindings; in the child (`shardy`).
"""

from collections.abc import Iterable
from typing import Any

from edgec.exporters.mesh.whole import sharding_of
from edgec.toolchain.ir.functions import inside

__all__ = ["order_sums"]


def order_sums(functions: Iterable[Any]) -> None:
    """Name the axes of products' sums in the order in which left factors are cut, in place."""
    from jaxlib.mlir import ir

    for function in functions:
        for operation in inside(function):
            if operation.name != "stablehlo.dot_general":
                continue
            text = ", ".join(_summed_along(operation))
            for use in operation.results[0].uses:
                summing = use.owner.operation
                if summing.name == "sdy.all_reduce":
                    axes = ir.Attribute.parse(f"#sdy<axis_ref_list{{{text}}}>")
                    if _set(axes) == _set(summing.attributes["reduction_axes"]):
                        summing.attributes["reduction_axes"] = axes


def _summed_along(product: Any) -> list[str]:
    """The axes, as the dialect writes them, along which what is summed is cut."""
    from jaxlib.mlir.dialects import sdy, stablehlo

    numbers = stablehlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    sharding = sharding_of(product.operands[0])
    if sharding is None:
        return []
    dims = [sdy.DimensionShardingAttr(dim) for dim in sharding.dimension_shardings]
    return [
        f'"{sdy.AxisRefAttr(axis).name}"'
        for place in numbers.lhs_contracting_dimensions
        for axis in dims[place].axes
    ]


def _set(axes: Any) -> set[str]:
    written = str(axes)
    return set(written[written.index("{") + 1 : written.rindex("}")].split(", "))
