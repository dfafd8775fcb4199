"""Depthwise convolutions whose sums are wider than their operands, with operands as wide."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["PlainDepthwise"]


@dataclass(frozen=True, kw_only=True)
class PlainDepthwise:
    """The operands of a depthwise convolution are converted to the type of its result.

    A convolution may sum f16 in f32 or i8 in i32. iree-compile 3.13 takes that, but not where each
    channel has one window of its own: it drops an axis of the weights and gives what is left the
    result's type ("'tensor.collapse_shape' op expected collapsed type to be f16, but got f32").
    A conversion alone would be taken into the convolution again; an operation that changes nothing
    keeps it out and is gone afterwards. No unit multiplies matrices there, so nothing is lost.

    Measured: ConvNeXt and MobileNetV2 in f16 compile for CUDA with it and are refused without.
    """

    name = "plain-depthwise"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "PlainDepthwise | None":
        """For programs in StableHLO with a convolution; CUDA's kernels leave such ones, too."""
        return cls() if "stablehlo.convolution" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph
        from edgec.toolchain.ir.read import element_type, integers

        count = 0
        with module.context:
            for op in graph.inside(module.operation):
                if op.name != "stablehlo.convolution":
                    continue
                if integers(op, "feature_group_count", [1]) == [1]:
                    continue
                kind = element_type(op.results[0])
                narrow = [n for n, v in enumerate(op.operands) if element_type(v) != kind]
                for n in narrow:
                    with ir.InsertionPoint(op), op.location:
                        value = graph.convert(op.operands[n], kind)
                        op.operands[n] = _kept(value)
                count += bool(narrow)
        return count


def _kept(value: Any) -> Any:
    """The same numbers, by an operation that the compiler sees through only later."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import is_float

    kind = graph.element(value)
    if is_float(kind):
        return graph.binary("multiply", value, graph.fill(1, graph.shape(value), kind))
    least = 0 if graph.is_unsigned(kind) else -(2 ** (kind.width - 1))
    return graph.binary("maximum", value, graph.fill(least, graph.shape(value), kind))
