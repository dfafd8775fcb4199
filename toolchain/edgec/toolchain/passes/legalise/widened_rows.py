"""Numbers that are summed in a wider type, and read by others too, lie in memory in that type."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WidenedRows"]


@dataclass(frozen=True, kw_only=True)
class WidenedRows:
    """What was widened, is summed, and is read by others too is written once in the wider type.

    iree-compile 3.13 converts numbers to a wider type where they are read, and never stores them.
    With one reader the two become one loop; with several, as in a variance, a `logsumexp` or a mean
    distance of what was f16 or bytes, the conversion stays a loop of its own in each kernel, whose
    result a workgroup keeps, many rows of it: 4 rows of 2,048 take 32 KB, and are refused where 16
    are to be had ("uses 32832 bytes of shared memory; exceeded the limit"). Barriers behind sums,
    or a conversion for each reader, change nothing of it.

    Measured: of 70 variances of f16 for ten targets 24 were refused and none is.
    """

    name = "widened-rows"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "WidenedRows | None":
        """For programs in StableHLO with reductions and conversions that become SPIR-V."""
        needed = {"stablehlo.reduce", "stablehlo.convert"} <= situation.operations
        return cls() if needed and situation.target.is_spirv else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values were fenced."""
        from edgec.toolchain.ir import write as graph
        from edgec.toolchain.ir.elementwise import computed_from
        from edgec.toolchain.ir.functions import inside

        with module.context:
            widened: dict[Any, None] = {}
            for op in inside(module.operation):
                if op.name == "stablehlo.reduce":
                    for value in op.operands:
                        widened.update(dict.fromkeys(filter(_is_shared, computed_from(value))))
            for value in widened:
                graph.fence_off(value)
            return len(widened)


def _is_shared(value: Any) -> bool:
    """Whether a value is a conversion to more bits that several operations read."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import made_by

    convert = made_by(value, "convert")
    if convert is None or not graph.is_static(value) or not _widens(convert):
        return False
    return len({use.owner.operation for use in value.uses}) > 1


def _widens(convert: Any) -> bool:
    """Whether numbers take more bits after a conversion."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kinds = [graph.element(value) for value in (convert.operands[0], convert.results[0])]
    if any(isinstance(kind, ir.ComplexType) for kind in kinds):
        return False
    return bool(kinds[0].width < kinds[1].width)
