"""Values of a loop's step, and where they lie: nodes of fills, and stages that make what is kept.

A module imported only by a pass that runs; it needs the compiler.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import numbers_of
from edgec.toolchain.kernels.cpu.recurrence_domains import Domain, apply
from edgec.toolchain.kernels.cpu.recurrence_hoist import is_inside
from edgec.toolchain.kernels.cpu.recurrence_indices import Turns
from edgec.toolchain.kernels.cpu.recurrence_memories import Memories
from edgec.toolchain.kernels.cpu.recurrence_plan import Weights
from edgec.toolchain.kernels.cpu.recurrence_points import NoMatch, Point, dense, moved, whole
from edgec.toolchain.kernels.cpu.source.recurrence import (
    Fill,
    Load,
    Number,
    Place,
    Product,
    Stage,
    panels,
)
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["Values", "whole_of"]

_MOVES = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.reshape",
    "stablehlo.slice",
    "stablehlo.transpose",
)
_KEPT = ("stablehlo.dot_general", "stablehlo.concatenate")


class Values:
    """The values of one loop, as far as they were read.

    Attributes:
        stages: what one step does so far.
        made: a value to its memory, where it lies dense.
        memories: all there are.
        multiplied, weights: multiplications of a step, and elements of the matrices in them.
    """

    def __init__(self, loop: Any, turns: Turns, unit: VectorUnit) -> None:
        self.memories = Memories(loop, unit)
        self.stages: list[Stage] = []
        self.made: dict[Any, int] = {}
        self.multiplied = 0
        self.weights = 0
        self._loop = loop
        self._turns = turns
        self._unit = unit

    def starts(self, op: Any, first: int, cut: Any) -> list[tuple[int, int]]:
        """Where a slice begins on each axis: its first value, and its step from turn to turn."""
        lines = []
        for axis, size in enumerate(graph.shape(cut)):
            most = graph.shape(op.operands[0])[axis] - size
            line = (0, 0) if most == 0 else self._turns.line(op.operands[first + axis], most)
            if line is None:
                raise NoMatch
            lines.append(line)
        return lines

    def node(self, domain: Domain, value: Any, point: Point) -> int:
        """The node of a value's element at a point of the domain."""
        key = (value, point)
        if key not in domain.known:
            domain.known[key] = self._new_node(domain, value, point)
        return domain.known[key]

    def _new_node(self, domain: Domain, value: Any, point: Point) -> int:
        number = splat(value)
        if number is not None and isinstance(graph.element(value), ir.F32Type):
            return domain.add(Number(value=number))
        if value in self.made:
            return domain.add(Load(place=self.at(value, self.made[value], point)))
        if not is_inside(value, self._loop):
            return self._outer(domain, value, point)
        if isinstance(value.owner, ir.Block):
            raise NoMatch
        op = value.owner.operation
        if op.name == "stablehlo.dynamic_slice":
            whole = op.operands[0]
            if is_inside(whole, self._loop):
                raise NoMatch
            lines = self.starts(op, 1, value)
            return domain.add(Load(place=self.at(whole, self.memories.input(whole), point, lines)))
        if op.name in _MOVES:
            there = moved(op, point, domain.sizes)
            if there is not None:
                return self.node(domain, op.operands[0], there)
            self.keep(op.operands[0])
            return domain.add(Load(place=self._reshaped(op, point)))
        if op.name in _KEPT:
            self.keep(value)
            return self.node(domain, value, point)

        def operand(number: int) -> int:
            value = op.operands[number]
            return self.node(domain, value, point if graph.shape(value) else ())

        return apply(domain, op, operand)

    def _outer(self, domain: Domain, value: Any, point: Point) -> int:
        """An element of a value from before the loop, seen through what only repeats it."""
        if not isinstance(graph.element(value), ir.F32Type):
            raise NoMatch
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.broadcast_in_dim":
            there = moved(owner.operation, point, domain.sizes)
            if there is not None:
                return self.node(domain, owner.operation.operands[0], there)
        return domain.add(Load(place=self.at(value, self.memories.input(value), point)))

    def at(
        self, value: Any, memory: int, point: Point, lines: Sequence[tuple[int, int]] = ()
    ) -> Place:
        """The place of an element of a value that lies dense, moved by where a slice begins."""
        steps = dense(graph.shape(value))
        start = sum(s * p.start for s, p in zip(steps, point, strict=True))
        rank = len(point[0].steps) if point else 1
        places = [0] * rank
        for size, index in zip(steps, point, strict=True):
            for axis, step in enumerate(index.steps):
                places[axis] += size * step
        start += sum(s * line[0] for s, line in zip(steps, lines, strict=False))
        turn = sum(s * line[1] for s, line in zip(steps, lines, strict=False))
        return Place(memory=memory, start=start, turn=turn, steps=tuple(places))

    def _reshaped(self, op: Any, point: Point) -> Place:
        """The place of an element of a reshaped value whose operand lies dense."""
        if op.name != "stablehlo.reshape":
            raise NoMatch
        return self.at(op.results[0], self.made[op.operands[0]], point)

    def keep(self, value: Any) -> None:
        """Compute a value of the step into memory of its own, before what is being read."""
        if value in self.made:
            return
        if not isinstance(graph.element(value), ir.F32Type):
            raise NoMatch
        name = "" if isinstance(value.owner, ir.Block) else value.owner.operation.name
        if name == "stablehlo.dot_general" and is_inside(value, self._loop):
            self._multiply(value)
            return
        memory = self.memories.own(math.prod(graph.shape(value)))
        if name == "stablehlo.concatenate" and is_inside(value, self._loop):
            self._join(value, memory)
        else:
            sizes, point = whole_of(value)
            domain = Domain(sizes=sizes)
            node = self.node(domain, value, point)
            domain.stores.append((self.at(value, memory, point), node))
            self.stages.append(domain.fill())
        self.made[value] = memory

    def _join(self, value: Any, memory: int) -> None:
        op = value.owner.operation
        axis, start = int(op.attributes["dimension"]), 0
        for part in op.operands:
            sizes, point = whole_of(part)
            domain = Domain(sizes=sizes)
            node = self.node(domain, part, point)
            lines = [(start if i == axis else 0, 0) for i in range(len(graph.shape(part)))]
            domain.stores.append((self.at(value, memory, point, lines), node))
            self.stages.append(domain.fill())
            start += graph.shape(part)[axis]

    def _multiply(self, value: Any) -> None:
        """A product by a matrix from before the loop, on either side."""
        op = value.owner.operation
        numbers = numbers_of(op.attributes["dot_dimension_numbers"])
        if numbers.get("lhs_batching_dimensions"):
            raise NoMatch
        left, right = op.operands
        inner, outer = (numbers[f"{s}_contracting_dimensions"] for s in ("lhs", "rhs"))
        if is_inside(right, self._loop):  # the matrix stands on the left
            left, right, inner, outer = right, left, outer, inner
            if math.prod(graph.shape(left)) != graph.shape(left)[inner[0] if inner else 0]:
                raise NoMatch
        if is_inside(right, self._loop) or len(graph.shape(right)) != 2:
            raise NoMatch
        if len(inner) != 1 or len(outer) != 1:
            raise NoMatch
        if not all(isinstance(graph.element(v), ir.F32Type) for v in (left, right, value)):
            raise NoMatch
        depth = graph.shape(left)[inner[0]]
        columns = graph.shape(right)[1 - outer[0]]
        rows = math.prod(graph.shape(left)) // depth
        place = self._rows(left, inner[0])
        cut = panels(rows, columns, self._unit)
        self.multiplied += rows * depth * columns
        self.weights += depth * columns
        self.memories.inputs.append(
            Weights(value=right, turned=outer[0] == 1, starts=cut.starts, width=cut.width)
        )
        weights = len(self.memories.inputs) - 1
        memory = self.memories.own(rows * columns)
        self.stages.append(
            Product(
                rows=rows,
                depth=depth,
                columns=columns,
                source=place,
                weights=weights,
                target=Place(memory=memory, steps=(columns, 1)),
            )
        )
        self.made[value] = memory

    def _rows(self, value: Any, inner: int) -> Place:
        """Where the rows of a product lie: the memory of a value, seen as rows x depth."""
        sizes, point = whole_of(value)
        probe = Domain(sizes=sizes)
        self.node(probe, value, point)
        if len(probe.nodes) != 1 or not isinstance(probe.nodes[0], Load):
            self.keep(value)
            probe = Domain(sizes=sizes, nodes=[Load(place=self.at(value, self.made[value], point))])
        (load,) = probe.nodes
        if not isinstance(load, Load):
            raise NoMatch
        by_axis = {
            axis: load.place.steps[index.axis]
            for axis, index in enumerate(point)
            if index.axis is not None
        }
        others = [axis for axis in by_axis if axis != inner]
        shape = graph.shape(value)
        for first, second in itertools.pairwise(others):
            if by_axis[first] != by_axis[second] * shape[second]:
                raise NoMatch
        by_row = by_axis[others[-1]] if others else 0
        return Place(
            memory=load.place.memory,
            start=load.place.start,
            turn=load.place.turn,
            steps=(by_row, by_axis.get(inner, 0)),
        )

    def copy(self, value: Any, memory: int) -> Fill:
        """A value from before the loop into memory, dense."""
        sizes, point = whole_of(value)
        domain = Domain(sizes=sizes)
        node = self.node(domain, value, point)
        domain.stores.append((self.at(value, memory, point), node))
        return domain.fill()


def whole_of(value: Any) -> tuple[tuple[int, ...], Point]:
    """A domain of all elements of a value, and its point: axes of one element are left out."""
    return whole(graph.shape(value))
