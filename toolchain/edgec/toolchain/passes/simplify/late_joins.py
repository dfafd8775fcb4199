"""Concatenations that begin with weights, joined when they are needed."""

from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["LateJoins"]

_BARRIER = "stablehlo.optimization_barrier"
_MOVES = ("stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.convert")
_ROOTS = ("util.global.load", "stablehlo.constant")


@dataclass(frozen=True, kw_only=True)
class LateJoins:
    """Weights at the beginning of a concatenation are copied in the call, not into a template.

    The compiler writes the parts of a concatenation one after the other into new memory. Parts that
    are known before the first call it writes then, and each call begins with a copy of all that
    memory: a piece of work of its own on a GPU, before all others, which wait for its end by way of
    the host. Behind a barrier the weights are a part as others are, copied among the kernels.

    Measured on an H200: a ViT-B/16 in f16 (a class token before its patches) left the GPU idle for
    0.37 of 0.99 ms without it, 0.15 between its 94 kernels and the rest behind that copy; a
    ConvNeXt-T, which joins nothing, for 0.12 of 0.60 ms. With it, it was not timed yet.
    """

    name = "late-joins"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "LateJoins | None":
        """For StableHLO with concatenations at -O2 and above, but not on the CPU."""
        if situation.target.backend is Backend.CPU or situation.level < 2:
            return None
        needed = situation.is_stablehlo and "stablehlo.concatenate" in situation.operations
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many begin with weights."""
        from iree.compiler import ir

        from edgec.toolchain.ir.weights import Weights

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            weights = Weights(module)
            found = [op for op in inside(module.operation) if op.name == "stablehlo.concatenate"]
            count = 0
            for op in found:
                first, *others = op.operands
                if not weights.holds(first) or all(map(weights.holds, others)):
                    continue
                fresh = _fresh(first, op)
                if fresh is not None:
                    op.operands[0] = fresh
                    count += 1
            return count


def _fresh(value: Any, op: Any) -> Any | None:
    """Weights as if they came with the call, for an operation; None where they were worked out.

    The barrier is the first thing in the program: the compiler ends a piece of work at one.
    """
    from iree.compiler import ir

    owner = value.owner.operation
    if owner.name in _MOVES:
        inner = _fresh(owner.operands[0], op)
        if inner is None:
            return None
        with ir.InsertionPoint(op):
            moved = owner.clone()
        moved.operation.operands[0] = inner
        return moved.operation.results[0]
    if owner.name not in _ROOTS:
        return None
    block = op.block
    while block.owner.operation.name != "func.func":
        block = block.owner.operation.block
    with ir.InsertionPoint.at_block_begin(block), op.location:
        root = owner.clone().operation.results[0]
        return ir.Operation.create(_BARRIER, results=[root.type], operands=[root]).result
