"""A loop of StableHLO to the stages of a kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.kernels.cpu.recurrence_domains import Domain
from edgec.toolchain.kernels.cpu.recurrence_indices import Turns
from edgec.toolchain.kernels.cpu.recurrence_plan import Plan, is_small
from edgec.toolchain.kernels.cpu.recurrence_points import NoMatch
from edgec.toolchain.kernels.cpu.recurrence_values import Values, whole_of
from edgec.toolchain.kernels.cpu.source.recurrence import Fill, Load, Place
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.match.loop import blocks, counted

__all__ = ["read_loop"]

_MOST_ELEMENTS = 32 * 1024  # that one step computes


def read_loop(loop: Any, unit: VectorUnit) -> Plan | None:
    """The kernel of a loop that `can_be_one_kernel`; None where its steps have another form."""
    known = counted(loop)
    if known is None:
        return None
    try:
        return _Reader(loop, known.trips, unit).plan()
    except NoMatch:
        return None


class _Reader:
    """What one loop carries, writes and computes."""

    def __init__(self, loop: Any, count: int, unit: VectorUnit) -> None:
        self.loop = loop
        self.unit = unit
        self.turns = Turns.of(loop, count)
        _, self.body = blocks(loop)
        self.values = Values(loop, self.turns, unit)
        self.memories = self.values.memories

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
            self.values.made[argument] = self.memories.own(math.prod(graph.shape(argument)))
            before.append(self.values.copy(self.loop.operands[place], self.values.made[argument]))
        if not written and not carried:
            raise NoMatch
        for place, op in written.items():
            self.memories.outputs.append(place)
            if not self.covers(op):
                before.append(
                    self.values.copy(self.loop.operands[place], self.memories.output(place))
                )
        ends = self.step(carried, written)
        for place in carried:
            size = math.prod(graph.shape(results[place]))
            argument = self.body.arguments[place]
            self.values.stages.append(_move(ends[place], self.values.made[argument], size))
            if list(self.loop.results[place].uses):
                self.memories.outputs.append(place)
                after.append(_move(self.values.made[argument], self.memories.output(place), size))
        self.refuse_large()
        return Plan(
            loop=self.loop,
            recurrence=self.memories.kernel(self.turns.count, before, self.values.stages, after),
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
        domains: dict[tuple[int, ...], Domain] = {}
        ends: dict[int, int] = {}
        news: dict[Any, int] = {}
        for value, place, op in roots:
            sizes, point = whole_of(value)
            domain = domains.setdefault(sizes, Domain(sizes=sizes))
            if op is None and (value in self.values.made or value in news):
                known = self.values.made.get(value, news.get(value))
                if known is not None and value not in self.body.arguments:
                    ends[place] = known
                    continue
            node = self.values.node(domain, value, point)
            if op is None:
                ends[place] = news[value] = self.memories.own(math.prod(graph.shape(value)))
                target = self.values.at(value, ends[place], point)
            else:
                lines = self.values.starts(op, 2, value)
                target = self.values.at(op.results[0], self.memories.output(place), point, lines)
            domain.stores.append((target, node))
        self.values.stages += [domain.fill() for domain in domains.values() if domain.stores]
        return ends

    def covers(self, op: Any) -> bool:
        """Whether a loop writes every element of what it carries."""
        update = graph.shape(op.operands[1])
        lines = self.values.starts(op, 2, op.operands[1])
        moving = [axis for axis, (_, step) in enumerate(lines) if step]
        if len(moving) != 1:
            return False
        size = update[moving[0]]
        count = size * self.turns.count
        return abs(lines[moving[0]][1]) == size and count == graph.shape(op.operands[0])[moving[0]]

    def refuse_large(self) -> None:
        """Leave loops whose steps are worth more than one core, or whose weights outgrow it."""
        elements = sum(math.prod(s.sizes) for s in self.values.stages if isinstance(s, Fill))
        if (
            not is_small(self.values.weights, self.values.multiplied, self.unit)
            or elements > _MOST_ELEMENTS
        ):
            raise NoMatch


def _move(source: int, target: int, size: int) -> Fill:
    """All elements of one memory to another."""
    return Fill(
        sizes=(size,),
        nodes=(Load(place=Place(memory=source, steps=(1,))),),
        stores=((Place(memory=target, steps=(1,)), 0),),
    )
