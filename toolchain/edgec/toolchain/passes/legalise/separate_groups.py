"""Grouped convolutions, for GPUs, as one convolution a group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparateGroups"]


@dataclass(frozen=True, kw_only=True)
class SeparateGroups:
    """A convolution of several groups becomes one convolution for each, joined.

    iree-compile 3.13 gives zeros for most of the outputs of a grouped convolution in SPIR-V (read
    from llvmpipe: 2, 3 and 1 dimensions, groups of features and of batches, convolutions under
    vmap). Groups of one channel (depthwise) are right and stay as they are. What
    kernels of edgec's own took is gone by then.

    Measured on llvmpipe: of the 111 convolutions among the operator cases all are right with it.
    """

    name = "separate-groups"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SeparateGroups | None":
        """For programs in StableHLO with convolutions that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.convolution" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many convolutions."""
        return rewrite_each(module, ["stablehlo.convolution"], _separate)


def _separate(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import convolution_layout

    attributes = dict(op.attributes.items())
    features, batches = (
        ir.IntegerAttr(attributes[f"{what}_group_count"]).value for what in ("feature", "batch")
    )
    groups = max(features, batches)
    value, kernel = op.operands
    inputs, kernels, outputs = convolution_layout(op)
    if groups == 1 or (features > 1 and graph.shape(kernel)[kernels.index("i")] == 1):
        return None
    one = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)
    attributes |= {"feature_group_count": one, "batch_group_count": one}
    split = inputs.index("f" if features > 1 else "b")
    sizes = list(graph.shape(op.results[0]))
    sizes[outputs.index("f")] //= groups
    kind = graph.tensor(sizes, graph.element(op.results[0]))
    made = [
        graph.create(
            op.name,
            kind,
            [_part(value, split, groups, n), _part(kernel, kernels.index("o"), groups, n)],
            attributes,
        )
        for n in range(groups)
    ]
    return [graph.concatenate(made, outputs.index("f"))]


def _part(value: Any, axis: int, groups: int, number: int) -> Any:
    """One of several equal parts along an axis."""
    from edgec.toolchain.ir import write as graph

    each = graph.shape(value)[axis] // groups
    return graph.cut(value, axis, number * each, (number + 1) * each)
