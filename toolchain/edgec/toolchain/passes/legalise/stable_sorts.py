"""Sorts that must keep equal elements in order get their places as the last key."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["StableSorts"]

_PARTS = frozenset(f"stablehlo.{name}" for name in ("slice", "dynamic_slice", "gather"))


@dataclass(frozen=True, kw_only=True)
class StableSorts:
    """A stable sort of several operands compares places where its keys are equal.

    iree-compile 3.13 takes `is_stable` for granted and orders equal elements anyhow: an argsort
    of truths or of integers with ties gives other places than the framework. One more operand
    counts along the sorted dimension and decides between equals, unless one does already. A sort
    of one operand needs none.

    An operand that is an argument of the function is copied, since the compiler sorts in place,
    into the caller's own array where it is shared. One that somebody else reads, too, or that may
    become one with another (the places of two argsorts), is copied, too: iree-compile lets two
    sorts of one count work in the same memory, and both are wrong. A sort whose results
    are used in part has them all pass a barrier: the compiler dies of one it may not write
    (SPIR-V), or refuses it ("write affecting operations on global resources"). A slice or gather
    that is sorted on CUDA or ROCm is written first: the compiler would read it in the sort's own
    kernel, and finds no memory to sort in there ("failed to bufferize op").

    Measured with `benchmarks.operators.passes` on the CPU: it changes 90 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 6 without.
    """

    name = "stable-sorts"
    purpose = Purpose.RIGHT

    apart: frozenset[str] = frozenset()
    """What is written before it is sorted."""

    @classmethod
    def plan(cls, situation: Situation) -> "StableSorts | None":
        """For programs in StableHLO with a sort."""
        if "stablehlo.sort" not in situation.operations:
            return None
        return cls(apart=_PARTS) if situation.target.is_llvm_gpu else cls()

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many sorts changed."""
        copies = itertools.count(1)
        return rewrite_each(module, ["stablehlo.sort"], lambda op: _stable(op, copies, self.apart))


def _stable(op: Any, copies: Iterator[int], apart: Collection[str]) -> Sequence[Any] | None:
    """The results of a sort that keeps the order of equals.

    `copies` numbers what is copied; what operations named in `apart` make is written first.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import maker, sorted_axis, unshaped

    attributes = dict(op.attributes.items())
    stable = graph.flag(op, "is_stable")
    partly = any(not list(result.uses) for result in op.results)
    stable &= len(op.operands) > 1
    operands = [
        graph.copied(value, next(copies)) if _is_shared(value) else graph.owned(value)
        for value in op.operands
    ]
    operands = [graph.fence(v) if maker(unshaped(v)) in apart else v for v in operands]
    if not stable and not partly and operands == list(op.operands):
        return None
    sizes = graph.shape(op.operands[0])
    axis = sorted_axis(op)
    own = next((i for i, v in enumerate(op.operands) if _counts(v, axis)), None) if stable else 0
    if own is None:
        # Counted inside the sort's own kernel, they would lie in memory that it cannot write.
        places = graph.iota(sizes, axis, ir.IntegerType.get_signless(32))
        operands.append(graph.unary("optimization_barrier", places))
    made = ir.Operation.create(
        "stablehlo.sort",
        results=[v.type for v in operands],
        operands=operands,
        attributes=attributes | {"is_stable": ir.BoolAttr.get(False)},
        regions=1,
    )
    scalars = [graph.tensor((), graph.element(v)) for v in operands for _ in range(2)]
    block = made.regions[0].blocks.append(*scalars)
    with ir.InsertionPoint(block):
        at = 2 * (len(operands) - 1 if own is None else own)
        left, right = block.arguments[at], block.arguments[at + 1]
        keys = list(block.arguments)[: 2 * len(op.operands)]
        swapped = [key for pair in zip(keys[1::2], keys[0::2], strict=True) for key in pair]
        (less,) = graph.apply(op.regions[0], keys)
        if not stable:
            ir.Operation.create("stablehlo.return", operands=[less])
            return _kept(made, len(op.results))
        (more,) = graph.apply(op.regions[0], swapped)
        first = graph.compare("LT", left, right)
        equal = graph.unary("not", more)
        ir.Operation.create(
            "stablehlo.return",
            operands=[graph.binary("or", less, graph.binary("and", equal, first))],
        )
    return _kept(made, len(op.results))


def _kept(sort: Any, count: int) -> list[Any]:
    """The first results of a sort, all of them in use."""
    from iree.compiler import ir

    with ir.InsertionPoint.after(sort):
        fence = ir.Operation.create(
            "stablehlo.optimization_barrier",
            results=[v.type for v in sort.results],
            operands=list(sort.results),
        )
    return list(fence.results)[:count]


def _is_shared(value: Any) -> bool:
    """Whether others may read the memory of an operand, in which the compiler sorts."""
    from iree.compiler import ir

    if not isinstance(value.owner, ir.Operation | ir.OpView):
        return False
    name = value.owner.operation.name
    users = {use.owner.operation for use in value.uses}
    # Equal counts and constants become one later on.
    return name in ("stablehlo.iota", "stablehlo.constant") or len(users) > 1


def _counts(value: Any, axis: int) -> bool:
    """Whether a value is a count along an axis, as argsorts have one."""
    from iree.compiler import ir

    if not isinstance(value.owner, ir.Operation | ir.OpView):
        return False
    op = value.owner.operation
    if op.name != "stablehlo.iota":
        return False
    return bool(ir.IntegerAttr(op.attributes["iota_dimension"]).value == axis)
