"""A fill as it grows: nodes of values at points, each made once.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.elementwise import direction
from edgec.toolchain.ir.read import call_target
from edgec.toolchain.kernels.cpu.recurrence_points import NoMatch, Point
from edgec.toolchain.kernels.cpu.source.epilogue import BINARY, COMPARISONS, UNARY
from edgec.toolchain.kernels.cpu.source.recurrence import Apply, Fill, Node, Number, Place

__all__ = ["Domain", "apply"]


@dataclass(kw_only=True)
class Domain:
    """A fill as it grows: nodes of values at points are made once.

    Attributes:
        sizes: the domain's axes.
        nodes, stores: as in `Fill`.
        known: nodes by the value and the point.
    """

    sizes: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    stores: list[tuple[Place, int]] = field(default_factory=list)
    known: dict[tuple[Any, Point], int] = field(default_factory=dict)

    def add(self, node: Node) -> int:
        """A node's number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def fill(self) -> Fill:
        """All of it."""
        return Fill(sizes=self.sizes, nodes=tuple(self.nodes), stores=tuple(self.stores))


def apply(domain: Domain, op: Any, operand: Callable[[int], int]) -> int:
    """The node of an element-wise operation.

    Args:
        domain: where it is made.
        op: the operation.
        operand: the node of one of its operands, by number.

    Raises:
        NoMatch: it is none, or not of f32.
    """

    def step(name: str, *operands: int) -> int:
        return domain.add(Apply(name=name, operands=operands))

    if op.name == "stablehlo.compare":
        if not isinstance(graph.element(op.operands[0]), ir.F32Type):
            raise NoMatch
        return step(f"arith.cmpf {COMPARISONS[direction(op)]}", operand(0), operand(1))
    if not isinstance(graph.element(op.results[0]), ir.F32Type):
        raise NoMatch
    match op.name:
        case "stablehlo.select":
            return step("arith.select", operand(0), operand(1), operand(2))
        case "stablehlo.clamp":
            low = step("arith.maximumf", operand(1), operand(0))
            return step("arith.minimumf", low, operand(2))
        case "stablehlo.logistic":
            one = domain.add(Number(value=1.0))
            power = step("math.exp", step("arith.negf", operand(0)))
            return step("arith.divf", one, step("arith.addf", power, one))
        case "stablehlo.convert" if op.operands[0].type == op.results[0].type:
            return operand(0)
        case name if name in UNARY:
            return step(UNARY[name], operand(0))
        case name if name in BINARY:
            return step(BINARY[name], operand(0), operand(1))
        case _ if call_target(op) in ("mhlo.erf", "chlo.erf"):
            return step("math.erf", operand(0))
    raise NoMatch
