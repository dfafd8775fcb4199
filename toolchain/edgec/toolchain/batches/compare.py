"""Whether a program does with each example of a batch the same, and with no other's help.

It is read for two sizes of the batch. What differs between the two must be the size of an axis that
counts examples, so a number that holds the batch's size (a mean over it, say) shows; and each
operation on such an axis must keep examples apart (`rules`). A module imported only where it is
needed; it takes the compiler's bindings.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.batches.marked import SIZES, Marked
from edgec.toolchain.batches.marks import Batch, Mark, NotByExample
from edgec.toolchain.batches.passing_on import given, levelled
from edgec.toolchain.batches.rules import follows
from edgec.toolchain.ir.fold import repeated
from edgec.toolchain.ir.functions import find_function
from edgec.toolchain.ir.places import place_of

__all__ = ["Compared", "compared"]

_CALLEES = {"func.call": "callee", "stablehlo.composite": "decomposition"}
_CONSTANT = "stablehlo.constant"
_ENDS = frozenset({"func.return", "stablehlo.return"})


Marks = tuple[Mark | None, ...] | None


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The marks of the arguments and results of `main`."""

    arguments: tuple[Mark | None, ...]
    results: tuple[Mark | None, ...]


def compared(one: Any, other: Any, batch: Batch) -> Compared:
    """Which arguments and results count examples.

    Args:
        one: an `ir.Module` in StableHLO whose function is `main`, for `batch.one` examples.
        other: the same in the same context, for `batch.other`.
        batch: the two sizes.

    Raises:
        NotByExample: an example's results depend on others, or the two are different programs.
    """
    found = _Pair(one=one, other=other, batch=batch).function("main", "main", None)
    if any(mark is not None and mark.before > 1 for mark in found.results):
        raise NotByExample("the examples of an output lie between other parts of it")
    return found


@dataclass(kw_only=True)
class _Pair:
    one: Any
    other: Any
    batch: Batch
    done: dict[tuple[str, str, Marks], Compared] = field(default_factory=dict)
    marks: dict[Any, Mark | None] = field(default_factory=dict)

    def function(self, here: str, there: str, asked: Marks) -> Compared:
        """The marks of a function's arguments, if they are `asked`, and results."""
        if (here, there, asked) not in self.done:
            pair = (find_function(self.one, here), find_function(self.other, there))
            blocks = tuple(list(function.regions[0].blocks) for function in pair)
            if any(len(each) != 1 for each in blocks):
                raise NotByExample("it has branches between blocks")
            inputs = blocks[0][0].arguments
            arguments = asked or tuple(
                self.batch.mark_of(*both)
                for both in zip(inputs, blocks[1][0].arguments, strict=True)
            )
            self.marks.update(zip(inputs, arguments, strict=True))
            end = self._block(blocks[0][0], blocks[1][0], {})
            self.done[here, there, asked] = Compared(arguments=arguments, results=end)
        return self.done[here, there, asked]

    def _block(self, here: Any, there: Any, known: dict[Any, Any]) -> tuple[Mark | None, ...]:
        """Go through two blocks side by side; the marks of what they end with."""
        if len(here.arguments) != len(there.arguments):
            raise NotByExample("the program changes with the batch")
        known = {**known, **dict(zip(here.arguments, there.arguments, strict=True))}
        # Of two sizes one may be a number that the program has elsewhere, and share its constant.
        ops = (
            [op.operation for op in block.operations if op.operation.name != _CONSTANT]
            for block in (here, there)
        )
        end: tuple[Mark | None, ...] = ()
        for op, twin in zip(*ops, strict=False):
            try:
                end = self._operation(op, twin, known)
            except NotByExample as found:
                if found.where is None:
                    found.where = place_of(op)
                raise
            known.update(zip(op.results, twin.results, strict=True))
            if op.name in _ENDS and twin.name in _ENDS:
                return end
        raise NotByExample("the program changes with the batch")

    def _operation(self, op: Any, twin: Any, known: dict[Any, Any]) -> tuple[Mark | None, ...]:
        if op.name != twin.name or len(op.operands) != len(twin.operands):
            raise NotByExample("the program changes with the batch")
        for one, other in zip(op.operands, twin.operands, strict=True):
            alike = one in known and known[one] == other
            if not alike and not self._same_constant(one, other):
                raise NotByExample("the program changes with the batch")
        operands = levelled(
            [self._mark(*both) for both in zip(op.operands, twin.operands, strict=True)]
        )
        sizes = [self.batch.mark_of(*both) for both in zip(op.results, twin.results, strict=True)]
        self._inside(op, twin, known)
        if op.name in _ENDS:
            return tuple(operands)
        marked = any(operands) or any(sizes)
        self._attributes(op, twin, marked=marked)
        if op.name in _CALLEES:
            here, there = (
                ir.FlatSymbolRefAttr(each.attributes[_CALLEES[op.name]]).value
                for each in (op, twin)
            )
            results = list(self.function(here, there, tuple(operands)).results)
        else:
            results = given(op, operands, sizes)
            if marked and not follows(
                Marked(op=op, other=twin, operands=operands, results=results)
            ):
                raise NotByExample(f"{op.name.partition('.')[2]} goes across the batch")
        self.marks.update(zip(op.results, results, strict=True))
        return ()

    def _mark(self, value: Any, other: Any) -> Mark | None:
        """How a value counts examples; of a constant, for which nothing is kept, by its sizes."""
        if value in self.marks:
            return self.marks[value]
        mark = self.batch.mark_of(value, other)
        return mark and replace(mark, uniform=repeated(value) is not None)

    def _same_constant(self, one: Any, other: Any) -> bool:
        """Whether two values are constants, and alike for each example."""
        owners = [value.owner for value in (one, other)]
        if any(isinstance(owner, ir.Block) or owner.name != _CONSTANT for owner in owners):
            return False
        op, twin = (owner.operation for owner in owners)
        mark = self.batch.mark_of(one, other)
        self._attributes(op, twin, marked=mark is not None)
        if mark is not None and not follows(Marked(op=op, other=twin, operands=[], results=[mark])):
            raise NotByExample("constant goes across the batch")
        return True

    def _inside(self, op: Any, twin: Any, known: dict[Any, Any]) -> None:
        for region, other in zip(op.regions, twin.regions, strict=True):
            for block, its in zip(region.blocks, other.blocks, strict=True):
                self._block(block, its, known)

    def _attributes(self, op: Any, twin: Any, *, marked: bool) -> None:
        """Refuse attributes that differ, but for sizes along the examples' axis."""
        own = {*SIZES.get(op.name, ())} if marked else set()
        own |= {_CALLEES[op.name]} if op.name in _CALLEES else set()
        sets = [
            {name: one.attributes[name] for name in one.attributes if name not in own}
            for one in (op, twin)
        ]
        if sets[0] != sets[1]:
            raise NotByExample("a number in it follows the size of the batch")
