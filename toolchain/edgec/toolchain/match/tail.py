"""What follows a product or convolution element by element: an expression over its sums.

A tail ends wherever only its newest value is used by anything else; so one product has several,
each longer than the one before. A device takes the longest that it can evaluate.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import direction, elementwise
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import unshaped
from edgec.toolchain.ir.rows import row_of
from edgec.toolchain.ir.weights import is_unchanging
from edgec.toolchain.ir.write import shape
from edgec.toolchain.match.description import Array, Description
from edgec.toolchain.match.expression import Operand, Source, Step, evaluate_steps

__all__ = ["Tail", "find_tails"]

_MOST_STEPS = 128
_FLOATS = ("f16", "bf16", "f32")


@dataclass(frozen=True, kw_only=True)
class Tail(Description):
    """The operations after a sum, as steps; without steps the sum itself is the value.

    Attributes:
        total: the `ir.Value` of the sums; its elements are rows of `columns`, in order.
        columns: how long such a row is.
        value: the value that the tail computes, with as many elements in the same order.
        operations: what computes it, in order.
        steps: the expression.
        rows: values with one element a column, in any shape, that it reads.
        tensors: values with one element for each sum, in the same order, that it reads.
    """

    total: Any
    columns: int
    value: Any
    operations: tuple[Any, ...] = ()
    steps: tuple[Step, ...] = ()
    rows: tuple[Any, ...] = ()
    tensors: tuple[Any, ...] = ()

    @property
    def operands(self) -> tuple[Any, ...]:
        """The sums, the rows and the tensors."""
        return (self.total, *self.rows, *self.tensors)

    @property
    def results(self) -> tuple[Any, ...]:
        """The last value."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The steps, one after the other."""
        total, rest = inputs[0], inputs[1:]
        rows = [array.reshape(1, self.columns) for array in rest[: len(self.rows)]]
        tensors = [array.reshape(-1, self.columns) for array in rest[len(self.rows) :]]
        value = evaluate_steps(self.steps, total.reshape(-1, self.columns), rows, tensors)
        return (np.asarray(value).reshape(shape(self.value)),)


def find_tails(
    total: Any, columns: int, *, taken: Collection[Any] = (), narrow: bool = False
) -> list[Tail]:
    """Every tail of a sum, the shortest first: the one without steps.

    Args:
        total: the `ir.Value` of the sums, of a static tensor type.
        columns: how long its rows are.
        taken: operations that belong to another kernel already.
        narrow: read rows before they were widened from f16 or bf16.
    """
    search = _Search(total, columns, narrow)
    found = [search.tail()]
    if str(total.type.element_type) not in _FLOATS:
        return found
    for op in _following(search, taken):
        if not search.take(op):
            continue
        if len(search.steps) > _MOST_STEPS:
            break
        if search.closes():
            found.append(search.tail())
    return found


def _following(search: "_Search", taken: Collection[Any]) -> Iterator[Any]:
    """The operations that use what was found so far, in the program's order."""
    block = search.total.owner
    block = block if isinstance(block, ir.Block) else block.operation.block
    seen: set[Any] = set()
    waiting: list[Any] = []
    looked: set[Any] = set()
    while True:
        for value in list(search.known):
            if value in looked:
                continue
            looked.add(value)
            for use in value.uses:
                user = use.owner.operation
                if user not in seen and user.block == block:
                    seen.add(user)
                    waiting.append(user)
        if not waiting:
            return
        first = min(waiting, key=_IN_ORDER)
        waiting.remove(first)
        if first not in taken:
            yield first


def _order(one: Any, other: Any) -> int:
    return -1 if one.is_before_in_block(other) else 1


_IN_ORDER = cmp_to_key(_order)


class _Search:
    """Operations taken so far, with where each of their values is found."""

    def __init__(self, total: Any, columns: int, narrow: bool) -> None:
        self.total = total
        self.columns = columns
        self.narrow = narrow
        self.count = math.prod(shape(total))
        self.known: dict[Any, Operand] = {total: Operand(source=Source.SUM)}
        self.last = total
        self.operations: list[Any] = []
        self.steps: list[Step] = []
        self.rows: list[Any] = []
        self.tensors: list[Any] = []

    def tail(self) -> Tail:
        return Tail(
            total=self.total,
            columns=self.columns,
            value=self.last,
            operations=tuple(self.operations),
            steps=tuple(self.steps),
            rows=tuple(self.rows),
            tensors=tuple(self.tensors),
        )

    def closes(self) -> bool:
        """Whether only the newest value is used by what is not taken."""
        inner = (value for value in self.known if value != self.last)
        return not any(
            use.owner.operation not in self.operations for value in inner for use in value.uses
        )

    def take(self, op: Any) -> bool:
        """Take an operation if it is element-wise on what was found and on what can be read."""
        if len(op.results) != 1:
            return False
        (result,) = op.results
        kind = str(getattr(result.type, "element_type", ""))
        if kind not in (*_FLOATS, "i1") or math.prod(shape(result)) != self.count:
            return False
        if op.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
            if op.name.endswith("dim") and not _keeps_order(op):
                return False
            self._found(op, self.known[op.operands[0]])
            return True
        name = elementwise(op)
        if name is None:
            return False
        marks = len(self.rows), len(self.tensors)
        operands = [self._operand(value) for value in op.operands]
        if any(operand is None for operand in operands):
            del self.rows[marks[0] :]
            del self.tensors[marks[1] :]
            return False
        self.steps.append(
            Step(
                name=name,
                operands=tuple(o for o in operands if o is not None),
                kind=kind,
                word=direction(op) if name == "compare" else "",
            )
        )
        self._found(op, Operand(source=Source.STEP, number=len(self.steps) - 1))
        return True

    def _found(self, op: Any, operand: Operand) -> None:
        self.operations.append(op)
        self.last = op.results[0]
        self.known[self.last] = operand

    def _operand(self, value: Any) -> Operand | None:
        """Where a step finds a value; None where it cannot."""
        if value in self.known:
            return self.known[value]
        number = splat(value)
        if number is not None:
            return Operand(source=Source.SCALAR, number=number)
        if math.prod(shape(value)) != self.count:
            return None
        if str(value.type.element_type) not in (*_FLOATS, "i1"):
            return None
        row = row_of(value, self.columns, narrow=self.narrow)
        # Of sums of a single row a weight is a row, as a bias is, and what is computed a tensor.
        if row is not None and (self.count != self.columns or is_unchanging(unshaped(row))):
            return Operand(source=Source.ROW, number=_place(self.rows, row))
        return Operand(source=Source.TENSOR, number=_place(self.tensors, value))


def _keeps_order(op: Any) -> bool:
    """Whether a broadcast only adds axes of one element."""
    axes = [int(axis) for axis in op.attributes["broadcast_dimensions"]]
    return axes == sorted(axes)


def _place(values: list[Any], value: Any) -> int:
    if value not in values:
        values.append(value)
    return values.index(value)
