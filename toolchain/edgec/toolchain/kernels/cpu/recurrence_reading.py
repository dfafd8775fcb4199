"""A loop of StableHLO to the stages of a kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.elementwise import direction
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import call_target, numbers_of
from edgec.toolchain.kernels.cpu.recurrence_hoist import is_inside
from edgec.toolchain.kernels.cpu.recurrence_indices import Turns
from edgec.toolchain.kernels.cpu.recurrence_memories import Memories
from edgec.toolchain.kernels.cpu.recurrence_plan import Plan, Weights, is_small
from edgec.toolchain.kernels.cpu.recurrence_points import NoMatch, Point, dense, moved, whole
from edgec.toolchain.kernels.cpu.source.epilogue import BINARY, COMPARISONS, UNARY
from edgec.toolchain.kernels.cpu.source.recurrence import (
    Apply,
    Fill,
    Load,
    Node,
    Number,
    Place,
    Product,
    Stage,
    panels,
)
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.match.loop import blocks, counted

__all__ = ["read_loop"]

_MOST_ELEMENTS = 32 * 1024  # that one step computes
_MOVES = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.reshape",
    "stablehlo.slice",
    "stablehlo.transpose",
)
_KEPT = ("stablehlo.dot_general", "stablehlo.concatenate")


def read_loop(loop: Any, unit: VectorUnit) -> Plan | None:
    """The kernel of a loop that `can_be_one_kernel`; None where its steps have another form."""
    known = counted(loop)
    if known is None:
        return None
    try:
        return _Reader(loop, known.trips, unit).plan()
    except NoMatch:
        return None


@dataclass(kw_only=True)
class _Domain:
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
        self.nodes.append(node)
        return len(self.nodes) - 1

    def fill(self) -> Fill:
        return Fill(sizes=self.sizes, nodes=tuple(self.nodes), stores=tuple(self.stores))


class _Reader:
    """Stages of one loop, as far as they were read."""

    def __init__(self, loop: Any, count: int, unit: VectorUnit) -> None:
        self.loop = loop
        self.unit = unit
        self.turns = Turns.of(loop, count)
        _, self.body = blocks(loop)
        self.memories = Memories(loop, unit)
        self.stages: list[Stage] = []
        self.made: dict[Any, int] = {}  # a value to its memory, where it lies dense
        self.multiplied = 0
        self.weights = 0

    def plan(self) -> Plan:
        """The whole loop.

        Raises:
            NoMatch: a part of it has another form.
        """
        results = list(list(self.body.operations)[-1].operation.operands)
        before: list[Fill] = []
        after: list[Fill] = []
        counts: dict[int, int] = {}
        carried: dict[int, Any] = {}
        written: dict[int, Any] = {}
        for place, argument in enumerate(self.body.arguments):
            used = bool(list(self.loop.results[place].uses))
            if results[place] == argument:
                continue
            if argument in self.turns.known:
                if used:
                    counts[place] = self.turns.last(argument) or 0
                continue
            if not isinstance(graph.element(argument), ir.F32Type):
                raise NoMatch
            if self.update_of(argument, results[place]) is not None:
                if used:
                    written[place] = results[place].owner.operation
                continue
            carried[place] = results[place]
            self.made[argument] = self.memories.own(math.prod(graph.shape(argument)))
            before.append(self.copy(self.loop.operands[place], self.made[argument]))
        if not written and not carried:
            raise NoMatch
        for place, op in written.items():
            self.memories.outputs.append(place)
            if not self.covers(op):
                before.append(self.copy(self.loop.operands[place], self.memories.output(place)))
        ends = self.step(carried, written)
        for place in carried:
            size = math.prod(graph.shape(results[place]))
            argument = self.body.arguments[place]
            self.stages.append(_move(ends[place], self.made[argument], size))
            if list(self.loop.results[place].uses):
                self.memories.outputs.append(place)
                after.append(_move(self.made[argument], self.memories.output(place), size))
        self.refuse_large()
        memories = self.memories
        return Plan(
            loop=self.loop,
            recurrence=memories.kernel(self.turns.count, before, self.stages, after),
            inputs=tuple(self.memories.inputs),
            outputs=tuple(self.memories.outputs),
            counts=counts,
        )

    def update_of(self, argument: Any, result: Any) -> Any:
        """The slice that a step writes into a carried value which it does not read; else None."""
        if isinstance(result.owner, ir.Block):
            return None
        op = result.owner.operation
        if op.name != "stablehlo.dynamic_update_slice" or op.operands[0] != argument:
            return None
        alone = len(list(argument.uses)) == 1 and len(list(result.uses)) == 1
        return op.operands[1] if alone else None

    def step(self, carried: dict[int, Any], written: dict[int, Any]) -> dict[int, int]:
        """The stages of one step; for each carried value the memory where its next one lies."""
        roots: list[tuple[Any, int, Any]] = [(v, p, None) for p, v in carried.items()]
        roots += [(op.operands[1], place, op) for place, op in written.items()]
        domains: dict[tuple[int, ...], _Domain] = {}
        ends: dict[int, int] = {}
        news: dict[Any, int] = {}
        for value, place, op in roots:
            sizes, point = _whole(value)
            domain = domains.setdefault(sizes, _Domain(sizes=sizes))
            if op is None and (value in self.made or value in news):
                known = self.made.get(value, news.get(value))
                if known is not None and value not in self.body.arguments:
                    ends[place] = known
                    continue
            node = self.node(domain, value, point)
            if op is None:
                ends[place] = news[value] = self.memories.own(math.prod(graph.shape(value)))
                target = self.at(value, ends[place], point)
            else:
                target = self.at(
                    op.results[0], self.memories.output(place), point, self.starts(op, 2, value)
                )
            domain.stores.append((target, node))
        self.stages += [domain.fill() for domain in domains.values() if domain.stores]
        return ends

    def starts(self, op: Any, first: int, cut: Any) -> list[tuple[int, int]]:
        """Where a slice begins on each axis: its first value, and its step from turn to turn."""
        lines = []
        for axis, size in enumerate(graph.shape(cut)):
            most = graph.shape(op.operands[0])[axis] - size
            line = (0, 0) if most == 0 else self.turns.line(op.operands[first + axis], most)
            if line is None:
                raise NoMatch
            lines.append(line)
        return lines

    def covers(self, op: Any) -> bool:
        """Whether a loop writes every element of what it carries."""
        update = graph.shape(op.operands[1])
        lines = self.starts(op, 2, op.operands[1])
        moving = [axis for axis, (_, step) in enumerate(lines) if step]
        if len(moving) != 1:
            return False
        size = update[moving[0]]
        count = size * self.turns.count
        return abs(lines[moving[0]][1]) == size and count == graph.shape(op.operands[0])[moving[0]]

    # Values at points.

    def node(self, domain: _Domain, value: Any, point: Point) -> int:
        """The node of a value's element at a point of the domain."""
        key = (value, point)
        if key not in domain.known:
            domain.known[key] = self.new_node(domain, value, point)
        return domain.known[key]

    def new_node(self, domain: _Domain, value: Any, point: Point) -> int:
        number = splat(value)
        if number is not None and isinstance(graph.element(value), ir.F32Type):
            return domain.add(Number(value=number))
        if value in self.made:
            return domain.add(Load(place=self.at(value, self.made[value], point)))
        if not is_inside(value, self.loop):
            return self.outer(domain, value, point)
        if isinstance(value.owner, ir.Block):
            raise NoMatch
        op = value.owner.operation
        if op.name == "stablehlo.dynamic_slice":
            whole = op.operands[0]
            if is_inside(whole, self.loop):
                raise NoMatch
            lines = self.starts(op, 1, value)
            return domain.add(Load(place=self.at(whole, self.memories.input(whole), point, lines)))
        if op.name in _MOVES:
            there = moved(op, point, domain.sizes)
            if there is not None:
                return self.node(domain, op.operands[0], there)
            self.keep(op.operands[0])
            return domain.add(Load(place=self.reshaped(op, point)))
        if op.name in _KEPT:
            self.keep(value)
            return self.node(domain, value, point)
        return self.apply(domain, op, point)

    def outer(self, domain: _Domain, value: Any, point: Point) -> int:
        """An element of a value from before the loop, seen through what only repeats it."""
        if not isinstance(graph.element(value), ir.F32Type):
            raise NoMatch
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.broadcast_in_dim":
            there = moved(owner.operation, point, domain.sizes)
            if there is not None:
                return self.node(domain, owner.operation.operands[0], there)
        return domain.add(Load(place=self.at(value, self.memories.input(value), point)))

    def apply(self, domain: _Domain, op: Any, point: Point) -> int:
        """An element-wise operation."""

        def operand(number: int) -> int:
            value = op.operands[number]
            here = point if graph.shape(value) else ()
            return self.node(domain, value, here)

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

    # Memory.

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

    def reshaped(self, op: Any, point: Point) -> Place:
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
        if name == "stablehlo.dot_general" and is_inside(value, self.loop):
            self.multiply(value)
            return
        memory = self.memories.own(math.prod(graph.shape(value)))
        if name == "stablehlo.concatenate" and is_inside(value, self.loop):
            self.join(value, memory)
        else:
            sizes, point = _whole(value)
            domain = _Domain(sizes=sizes)
            node = self.node(domain, value, point)
            domain.stores.append((self.at(value, memory, point), node))
            self.stages.append(domain.fill())
        self.made[value] = memory

    def join(self, value: Any, memory: int) -> None:
        op = value.owner.operation
        axis, start = int(op.attributes["dimension"]), 0
        for part in op.operands:
            sizes, point = _whole(part)
            domain = _Domain(sizes=sizes)
            node = self.node(domain, part, point)
            lines = [(start if i == axis else 0, 0) for i in range(len(graph.shape(part)))]
            domain.stores.append((self.at(value, memory, point, lines), node))
            self.stages.append(domain.fill())
            start += graph.shape(part)[axis]

    def multiply(self, value: Any) -> None:
        """A product by a matrix from before the loop, on either side."""
        op = value.owner.operation
        numbers = numbers_of(op.attributes["dot_dimension_numbers"])
        if numbers.get("lhs_batching_dimensions"):
            raise NoMatch
        left, right = op.operands
        inner, outer = (numbers[f"{s}_contracting_dimensions"] for s in ("lhs", "rhs"))
        if is_inside(right, self.loop):  # the matrix stands on the left
            left, right, inner, outer = right, left, outer, inner
            if math.prod(graph.shape(left)) != graph.shape(left)[inner[0] if inner else 0]:
                raise NoMatch
        if is_inside(right, self.loop) or len(graph.shape(right)) != 2:
            raise NoMatch
        if len(inner) != 1 or len(outer) != 1:
            raise NoMatch
        if not all(isinstance(graph.element(v), ir.F32Type) for v in (left, right, value)):
            raise NoMatch
        depth = graph.shape(left)[inner[0]]
        columns = graph.shape(right)[1 - outer[0]]
        rows = math.prod(graph.shape(left)) // depth
        place = self.rows(left, inner[0])
        cut = panels(rows, columns, self.unit)
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

    def rows(self, value: Any, inner: int) -> Place:
        """Where the rows of a product lie: the memory of a value, seen as rows x depth."""
        sizes, point = _whole(value)
        probe = _Domain(sizes=sizes)
        self.node(probe, value, point)
        if len(probe.nodes) != 1 or not isinstance(probe.nodes[0], Load):
            self.keep(value)
            probe = _Domain(
                sizes=sizes, nodes=[Load(place=self.at(value, self.made[value], point))]
            )
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
        sizes, point = _whole(value)
        domain = _Domain(sizes=sizes)
        node = self.node(domain, value, point)
        domain.stores.append((self.at(value, memory, point), node))
        return domain.fill()

    # The end.

    def refuse_large(self) -> None:
        """Leave loops whose steps are worth more than one core, or whose weights outgrow it."""
        elements = sum(math.prod(s.sizes) for s in self.stages if isinstance(s, Fill))
        if not is_small(self.weights, self.multiplied, self.unit) or elements > _MOST_ELEMENTS:
            raise NoMatch


def _move(source: int, target: int, size: int) -> Fill:
    """All elements of one memory to another."""
    return Fill(
        sizes=(size,),
        nodes=(Load(place=Place(memory=source, steps=(1,))),),
        stores=((Place(memory=target, steps=(1,)), 0),),
    )


def _whole(value: Any) -> tuple[tuple[int, ...], Point]:
    """A domain of all elements of a value, and its point: axes of one element are left out."""
    return whole(graph.shape(value))
