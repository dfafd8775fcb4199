"""Gathers look inside their operand only, whatever the index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["BoundGathers"]


@dataclass(frozen=True, kw_only=True)
class BoundGathers:
    """The indices of every gather are kept in bounds before it.

    StableHLO moves an index that is out of bounds to the nearest one inside (JAX's `mode="clip"`
    means that). iree-compile 3.13 makes a gather of rows without it, which reads other memory:
    `jnp.take(x, [-4, 8], mode="clip")` gives numbers like 1e21. One clamp of the indices, which
    are few.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 189 of 2,448 operator cases;
    of 6 tried, 5 are right with it and 5 without.
    """

    name = "bound-gathers"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "BoundGathers | None":
        """For programs in StableHLO with a gather."""
        return cls() if "stablehlo.gather" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many gathers changed."""
        from edgec.toolchain.ir import write as graph

        def bounded(op: Any) -> Sequence[Any] | None:
            kept = _kept_in_bounds(op)
            if kept is None:
                return None
            attributes = dict(op.attributes.items())
            return [graph.create(op.name, op.results[0].type, [op.operands[0], kept], attributes)]

        return rewrite_each(module, ["stablehlo.gather"], bounded)


def _kept_in_bounds(op: Any) -> Any | None:
    """The indices of a gather, clamped; None where they need not be."""
    from edgec.toolchain.ir import write as graph

    operand, indices = op.operands
    numbers = op.attributes["dimension_numbers"]
    dimensions = graph.numbers(numbers, "start_index_map")
    (vector,) = graph.numbers(numbers, "index_vector_dim") or [0]
    slices, own = graph.integers(op, "slice_sizes"), graph.shape(operand)
    last = [own[d] - slices[d] for d in dimensions]
    sizes, kind = graph.shape(indices), graph.element(indices)
    if not dimensions or 0 in sizes or 0 in own:
        return None
    most = (1 << (kind.width - (0 if graph.is_unsigned(kind) else 1))) - 1
    low = graph.fill(0, sizes, kind)
    if len(set(last)) == 1 or vector == len(sizes):
        high = graph.fill(min(last[0], most), sizes, kind)
    else:
        parts = []
        for limit in last:
            each = list(sizes)
            each[vector] = 1
            parts.append(graph.fill(min(limit, most), each, kind))
        high = graph.concatenate(parts, vector)
    return graph.clamp(low, indices, high)
