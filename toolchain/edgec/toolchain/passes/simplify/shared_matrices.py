"""A batch of products by one matrix, repeated for each, as a single product."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SharedMatrices"]


@dataclass(frozen=True, kw_only=True)
class SharedMatrices:
    """A batched product whose right side repeats one matrix becomes a product of all rows by it.

    `x @ w` with x of three axes comes from PyTorch as a batch of products, with the weights copied
    for each. The compiler may write those copies out, and neither packs such weights nor fills a
    tile with the few rows of one batch.

    Measured: the layers of `torch.nn.TransformerEncoderLayer` become products by weights, which
    edgec's own kernels then do; without this pass none of them is.
    """

    name = "shared-matrices"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "SharedMatrices | None":
        """For StableHLO with products at -O1 and above."""
        needed = situation.is_stablehlo and "stablehlo.dot_general" in situation.operations
        return cls() if needed and situation.level > 0 else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many products changed."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            products = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]
            return sum(_rewrite(op) for op in products)


def _rewrite(op: Any) -> int:
    from iree.compiler import ir

    from edgec.toolchain.ir.read import integers, numbers_of, shape_of

    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    batch = numbers.get("rhs_batching_dimensions", [])
    count = len(batch)
    if not batch or numbers.get("lhs_batching_dimensions") != list(range(count)):
        return 0
    if any(None in shape_of(value) for value in (*op.operands, *op.results)):
        return 0
    repeated = op.operands[1]
    while not isinstance(repeated.owner, ir.Block):
        maker = repeated.owner.operation
        same = maker.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim")
        if not same or shape_of(maker.operands[0]) != shape_of(repeated):
            break
        if integers(maker, "broadcast_dimensions") not in (
            [],
            list(range(len(shape_of(repeated)))),
        ):
            return 0
        repeated = maker.operands[0]
    if isinstance(repeated.owner, ir.Block):
        return 0
    maker = repeated.owner.operation
    if maker.name != "stablehlo.broadcast_in_dim":
        return 0
    source = maker.operands[0]
    where = integers(maker, "broadcast_dimensions")
    own = [axis for axis in range(len(shape_of(repeated))) if axis not in batch]
    if where != own or shape_of(source) != tuple(shape_of(repeated)[axis] for axis in own):
        return 0
    left = numbers["lhs_contracting_dimensions"]
    right = [own.index(axis) for axis in numbers["rhs_contracting_dimensions"]]
    text = (
        f"#stablehlo.dot<lhs_contracting_dimensions = {left}, rhs_contracting_dimensions = {right}>"
    )
    op.operands[1] = source
    op.attributes["dot_dimension_numbers"] = ir.Attribute.parse(text)
    return 1
