"""Numbers along an axis that reductions choose from lie in memory, where SPIR-V runs."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WrittenCounts"]


@dataclass(frozen=True, kw_only=True)
class WrittenCounts:
    """The first place where something holds is the least of numbers that lie in memory.

    `min(where(x > 0, arange(n), n))` is how programs ask for a first or last place. For GPUs by
    name iree-compile 3.13 counts in the type of its own indices, hands those from thread to thread
    in the memory of a workgroup, and refuses itself, since SPIR-V has no such type there ("failed
    to legalize operation 'memref.alloc'"): of integers of which a multiple of 1,024 are reduced
    that are counted in the same kernel. Behind a barrier they are 32-bit integers of an array.

    Measured: of 48 such programs of 1,000 to 49,152 numbers for three GPUs 24 were refused and none
    is.
    """

    name = "written-counts"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "WrittenCounts | None":
        """For programs in StableHLO with reductions and counts that become SPIR-V."""
        needed = {"stablehlo.reduce", "stablehlo.iota"} <= situation.operations
        return cls() if needed and situation.target.is_spirv else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were written."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph
        from edgec.toolchain.ir.functions import inside

        with module.context:
            found: dict[Any, None] = {}
            for op in list(inside(module.operation)):
                if op.name == "stablehlo.reduce" and _is_whole(op.operands[0]):
                    found.update(dict.fromkeys(_counts(op.operands[0])))
            for count in found:
                value = count.results[0]
                (axis,) = graph.integers(count, "iota_dimension")
                sizes = graph.shape(value)
                with count.location, ir.InsertionPoint(count):
                    line = graph.iota([sizes[axis]], 0, graph.element(value))
                    written = graph.broadcast(graph.fence(line), sizes, [axis])
                value.replace_all_uses_with(written)
                count.erase()
            return len(found)


def _is_whole(value: Any) -> bool:
    from iree.compiler import ir

    return isinstance(value.type.element_type, ir.IntegerType)


def _counts(value: Any) -> list[Any]:
    """The operations that count, of those from which a value is computed element by element."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.elementwise import computed_from
    from edgec.toolchain.ir.read import made_by

    found = [(each, made_by(each, "iota")) for each in computed_from(value)]
    return [
        op for each, op in found if op is not None and _is_whole(each) and graph.is_static(each)
    ]
