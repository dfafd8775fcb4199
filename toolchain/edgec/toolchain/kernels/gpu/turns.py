"""Rotary position embeddings of a program, and what is put into arrays that goes with them.

Keys are turned and put into a cache, values are put there, and queries are turned for attention,
all of them once for each layer of a language model. A kernel for each takes longer to begin than to
run, so one does all three where it can.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import element_type, made_by
from edgec.toolchain.ir.uses import only_use
from edgec.toolchain.kernels.gpu.moves import Part
from edgec.toolchain.match.rotary import ROTARY_ENDS, Rotary, in_order, read_rotary

__all__ = ["Turns"]


class Turns:
    """The rotary embeddings that no kernel has yet: `left`, in order."""

    def __init__(self, module: Any) -> None:
        ends = [op for op in inside(module.operation) if op.name in ROTARY_ENDS]
        self.left = [found for op in ends if (found := read_rotary(op)) is not None]

    def done(self, rotaries: Sequence[Rotary]) -> None:
        """These have a kernel now."""
        self.left = [each for each in self.left if all(each is not other for other in rotaries)]

    def part(self, update: Any, *, narrows: bool) -> Part:
        """What an update puts into its array, before it is turned if nothing else reads that.

        Args:
            update: it.
            narrows: whether what is put may be f32 that the array keeps in f16.
        """
        value, end = update.operands[1], update
        rounding = _rounding(update) if narrows else None
        if rounding is not None:
            value, end = rounding.operands[0], rounding
        source = in_order(value)
        for rotary in self.left:
            if rotary.value == source and _leads_only_to(source, end):
                return Part(value=rotary.source, rotary=rotary)
        return Part(value=value)

    def beside(self, parts: Sequence[Part], place: Any) -> Rotary | None:
        """What else may be turned by the factors of one of the parts, at the place of an update."""
        factors = [(p.rotary.cosine, p.rotary.sine) for p in parts if p.rotary is not None]
        taken = [part.rotary for part in parts]
        for rotary in self.left:
            op = rotary.value.owner.operation
            users = [use.owner.operation for use in rotary.value.uses]
            if (
                (rotary.cosine, rotary.sine) in factors
                and all(rotary is not each for each in taken)
                and op.block == place.block
                and op.is_before_in_block(place)
                and all(u.block == place.block and place.is_before_in_block(u) for u in users)
            ):
                return rotary
        return None


def _rounding(update: Any) -> Any | None:
    """The conversion from f32 to f16 that what an update puts comes from, if nothing else does."""
    value = in_order(update.operands[1])
    op = made_by(value, "convert")
    if op is None or not _leads_only_to(value, update):
        return None
    kinds = [str(element_type(each)) for each in (op.operands[0], value)]
    return op if kinds == ["f32", "f16"] else None


def _leads_only_to(value: Any, wanted: Any) -> bool:
    """Whether a value is read by one operation alone, perhaps after moves that keep its order."""
    while (use := only_use(value)) is not None:
        op = use.owner.operation
        if op == wanted:
            return True
        if len(op.results) != 1 or in_order(op.results[0]) != in_order(value):
            return False
        value = op.results[0]
    return False
