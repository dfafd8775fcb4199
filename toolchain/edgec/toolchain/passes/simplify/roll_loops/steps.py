"""Products by one matrix, each of what comes of the last, to equal steps.

A module imported only by a pass that runs; it needs the compiler.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.kernels.cpu.recurrence_hoist import is_known
from edgec.toolchain.kernels.cpu.recurrence_plan import is_small
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["Steps", "attributes_of", "chains", "made_by", "read_steps"]

_LEAST_STEPS = 8
_MOST_OPERATIONS = 200


class _NoMatch(Exception):
    """The operations after one product are not those after the one before it."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Steps of the same operations.

    Attributes:
        block: where they stand.
        operations: for each step its operations, in order; the last gives what is multiplied next.
        operands: for each operation, of each operand: an earlier operation of the step, or the
            leaf -1, -2, …
        leaves: for each step the operands from elsewhere.
        carried: for each leaf the operation of the step before that gives it; None for an input.
    """

    block: Any
    operations: Sequence[Sequence[Any]]
    operands: Sequence[Sequence[int]]
    leaves: Sequence[Sequence[Any]]
    carried: Sequence[int | None]


@dataclass(frozen=True, kw_only=True)
class _Step:
    """What one value comes of, within one step."""

    operations: tuple[Any, ...]
    operands: tuple[tuple[int, ...], ...]
    leaves: tuple[Any, ...]
    key: tuple[Any, ...]


def made_by(value: Any) -> Any | None:
    """The operation that gives a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def attributes_of(op: Any) -> tuple[tuple[str, str], ...]:
    """An operation's attributes, to compare."""
    return tuple(sorted((name, str(value)) for name, value in op.attributes.items()))


def chains(block: Any, unit: VectorUnit) -> list[list[Any]]:
    """Products of a block by the same matrix, where there are many and they are small, in order."""
    found: dict[Any, list[Any]] = {}
    for each in block.operations:
        op = each.operation
        if op.name == "stablehlo.dot_general" and _is_small(op, unit):
            found.setdefault(op.operands[1], []).append(op)
    return [ops for ops in found.values() if len(ops) >= _LEAST_STEPS]


def _is_small(op: Any, unit: VectorUnit) -> bool:
    """Whether a kernel for a loop would take a product of f32."""
    values = [*op.operands, *op.results]
    if not graph.is_static(*values):
        return False
    if not all(isinstance(graph.element(v), ir.F32Type) for v in values):
        return False
    depth = math.isqrt(  # from (rows depth) (depth columns) / (rows columns)
        math.prod(graph.shape(op.operands[0]))
        * math.prod(graph.shape(op.operands[1]))
        // math.prod(graph.shape(op.results[0]))
    )
    products = depth * math.prod(graph.shape(op.results[0]))
    weights = math.prod(graph.shape(op.operands[1]))
    return is_small(weights, products, unit)


def read_steps(block: Any, chain: Sequence[Any]) -> Steps | None:
    """The steps of a chain of products; None where they differ."""
    try:
        return _Reader(block, chain).steps()
    except _NoMatch:
        return None


class _Reader:
    def __init__(self, block: Any, chain: Sequence[Any]) -> None:
        self.block = block
        self.chain = chain
        self.level: dict[Any, int] = {}
        number = {op: i for i, op in enumerate(chain)}
        for each in block.operations:
            op = each.operation
            level = max((self.level.get(v, 0) for v in op.operands), default=0)
            if op in number:
                if level != number[op]:
                    raise _NoMatch
                level += 1
            if level:
                self.level.update((result, level) for result in op.results)

    def steps(self) -> Steps:
        found = [self.step(op.operands[0], i) for i, op in enumerate(self.chain[1:])]
        pattern = found[1]
        last = self.last(pattern)
        if last is not None:
            found.append(last)
        if any(step.key != pattern.key for step in found[1:]):
            raise _NoMatch
        carried = self.carried(found)
        if found[0].key != pattern.key:
            found = found[1:]
        for before, step in itertools.pairwise(found):
            for leaf, source in zip(step.leaves, carried, strict=True):
                if source is None and self.level.get(leaf, 0):
                    raise _NoMatch
                if source is not None and before.operations[source].results[0] != leaf:
                    raise _NoMatch
        return Steps(
            block=self.block,
            operations=[step.operations for step in found],
            operands=pattern.operands,
            leaves=[step.leaves for step in found],
            carried=carried,
        )

    def carried(self, found: Sequence[_Step]) -> list[int | None]:
        """For each leaf of the third step the operation of the second that gives it."""
        places = {op.results[0]: i for i, op in enumerate(found[1].operations)}
        result: list[int | None] = []
        for leaf in found[2].leaves:
            if self.level.get(leaf, 0) and leaf not in places:
                raise _NoMatch
            result.append(places.get(leaf))
        return result

    def step(self, root: Any, number: int) -> _Step:
        """What `root` comes of after the product of that number."""
        operations: list[Any] = []
        operands: list[tuple[int, ...]] = []
        leaves: list[Any] = []
        key: list[Any] = []
        place: dict[Any, int] = {}

        def visit(value: Any) -> int:
            if value in place:
                return place[value]
            if self.level.get(value, 0) != number + 1:
                leaves.append(value)
                key.append(str(value.type))
                return -len(leaves)
            op = value.owner.operation
            if not is_known(op) or len(op.results) != 1 or len(operations) > _MOST_OPERATIONS:
                raise _NoMatch
            inner = tuple(visit(v) for v in op.operands)
            key.append((op.name, attributes_of(op), str(op.results[0].type), inner))
            operations.append(op)
            operands.append(inner)
            place[value] = len(operations) - 1
            return place[value]

        if visit(root) < 0:
            raise _NoMatch
        return _Step(
            operations=tuple(operations),
            operands=tuple(operands),
            leaves=tuple(leaves),
            key=tuple(key),
        )

    def last(self, pattern: _Step) -> _Step | None:
        """The step after the last product: its end is known by what it comes of."""
        root = pattern.operations[-1]
        for value, level in self.level.items():
            if level != len(self.chain) or value.type != root.results[0].type:
                continue
            if value.owner.operation.name != root.name:
                continue
            try:
                step = self.step(value, len(self.chain) - 1)
            except _NoMatch:
                continue
            if step.key == pattern.key:
                return step
        return None
