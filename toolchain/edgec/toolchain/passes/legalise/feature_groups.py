"""Convolutions in groups of batches, for GPUs, as ones in groups of features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["FeatureGroups"]

_CONVOLUTION = "stablehlo.convolution"


@dataclass(frozen=True, kw_only=True)
class FeatureGroups:
    """The groups of a batch lie side by side as features before they are convolved.

    The gradient of a grouped convolution's weights is a convolution in groups of batches. Of f16
    and bf16 iree-compile 3.13 gives zeros for most of its outputs on CUDA, as it does in SPIR-V for
    groups of any kind (`separate-groups`). Kernels of edgec's own know groups of features, as
    convolutions of networks have them.

    Measured on an H200: of two such convolutions in f32, f64, f16, bf16, i32 and i8 those in f16
    and bf16 were wrong without it, and none is with it.
    """

    name = "feature-groups"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "FeatureGroups | None":
        """For programs in StableHLO with convolutions in groups of batches, for GPUs."""
        if not (situation.target.is_llvm_gpu or situation.target.is_spirv):
            return None
        return cls() if situation.has([_CONVOLUTION], lambda op: _groups(op) > 1) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many convolutions."""
        return rewrite_each(module, [_CONVOLUTION], _by_features)


def _groups(op: Any) -> int:
    from iree.compiler import ir

    return int(ir.IntegerAttr(op.attributes["batch_group_count"]).value)


def _by_features(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import convolution_layout

    groups = _groups(op)
    if groups == 1:
        return None
    image, kernel = op.operands
    axes, _, _ = convolution_layout(op)
    batch, feature = axes.index("b"), axes.index("f")
    sizes = list(graph.shape(image))
    apart = [*sizes[:batch], groups, sizes[batch] // groups, *sizes[batch + 1 :]]
    order = [axis for axis in range(len(apart)) if axis != batch]
    order.insert(order.index(feature + (feature > batch)), batch)
    sizes[batch] //= groups
    sizes[feature] *= groups
    turned = graph.reshape(graph.transpose(graph.reshape(image, apart), order), sizes)
    number = ir.IntegerType.get_signless(64)
    attributes = dict(op.attributes.items()) | {
        "batch_group_count": ir.IntegerAttr.get(number, 1),
        "feature_group_count": ir.IntegerAttr.get(number, groups),
    }
    return [graph.create(op.name, op.results[0].type, [turned, kernel], attributes)]
