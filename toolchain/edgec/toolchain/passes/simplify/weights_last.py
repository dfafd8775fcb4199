"""Products with weights on the left, with their sides exchanged."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WeightsLast"]


@dataclass(frozen=True, kw_only=True)
class WeightsLast:
    """A matrix of weights by what is computed becomes what is computed by the weights.

    A layer that is written for one vector and mapped over many (`jax.vmap(Linear)`, Equinox) is
    `w @ x` with a transpose behind it, and so are some of `einsum`'s. Kernels of all devices want
    weights on the right, packed once, and rows that bias and activation can follow in registers.
    The transpose behind it goes away with the one that this pass writes.

    Measured: of the bytes of a DINOv3 ViT of Equimo edgec's own kernels do 84 % on a CPU, and 63
    without this pass.
    """

    name = "weights-last"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "WeightsLast | None":
        """For StableHLO with products at -O1 and above."""
        needed = situation.is_stablehlo and "stablehlo.dot_general" in situation.operations
        return cls() if needed and situation.level > 0 else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many products changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.weights import Weights

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            weights = Weights(module)
            products = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]
            known = [[weights.holds(side) for side in op.operands] for op in products]
            return sum(
                _exchange(op)
                for op, sides in zip(products, known, strict=True)
                if sides == [True, False]
            )


def _exchange(op: Any) -> int:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import integers, numbers_of

    left, right = op.operands
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    if numbers.get("lhs_batching_dimensions") or not graph.is_static(left, right):
        return 0
    if graph.element(left) != graph.element(right):
        return 0  # Whose precision is which would change, too.
    summed = [numbers.get(f"{side}_contracting_dimensions", []) for side in ("lhs", "rhs")]
    with ir.InsertionPoint(op), op.location:
        product = graph.product(right, left, (summed[1], summed[0]), like=op)
        rows = len(graph.shape(right)) - len(summed[1])
        order = [*range(rows, len(graph.shape(product))), *range(rows)]
        for use in list(op.results[0].uses):
            user = use.owner.operation
            if user.name == "stablehlo.transpose":
                again = [order[axis] for axis in integers(user, "permutation")]
                user.results[0].replace_all_uses_with(graph.transpose(product, again))
                user.erase()
        if list(op.results[0].uses):
            op.results[0].replace_all_uses_with(graph.transpose(product, order))
        op.erase()
    return 1
