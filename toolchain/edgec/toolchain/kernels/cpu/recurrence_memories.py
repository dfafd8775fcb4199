"""The memories of a loop's kernel: numbered by what they hold, and at last as the kernel has them.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from typing import Any

from edgec.toolchain.ir import write as graph
from edgec.toolchain.kernels.cpu.recurrence_plan import Weights
from edgec.toolchain.kernels.cpu.recurrence_points import NoMatch
from edgec.toolchain.kernels.cpu.source.recurrence import (
    Fill,
    Load,
    Place,
    Product,
    Recurrence,
    Stage,
)
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["Memories"]

_SHARE_OF_STACK = 5 / 16  # for what a step computes
_OUTPUT = 1 << 20


class Memories:
    """Inputs are 0, 1, …; scratch is -1, -2, …; outputs have numbers far above.

    How many inputs and outputs there are is known at the end only.
    """

    def __init__(self, loop: Any, unit: VectorUnit) -> None:
        self.loop = loop
        self.unit = unit
        self.inputs: list[Any | Weights] = []
        self.outputs: list[int] = []
        self.scratch: list[int] = []

    def input(self, value: Any) -> int:
        """The number of a value from before the loop."""
        for number, known in enumerate(self.inputs):
            if not isinstance(known, Weights) and known == value:
                return number
        self.inputs.append(value)
        return len(self.inputs) - 1

    def own(self, size: int) -> int:
        """The number of new scratch memory.

        Raises:
            NoMatch: the stack has no room for it.
        """
        self.scratch.append(size)
        if 4 * sum(self.scratch) > _SHARE_OF_STACK * self.unit.stack:
            raise NoMatch
        return -len(self.scratch)

    @staticmethod
    def output(place: int) -> int:
        """The number of the memory that one of the loop's results is written to."""
        return _OUTPUT + place

    def kernel(
        self, turns: int, before: Sequence[Fill], stages: Sequence[Stage], after: Sequence[Fill]
    ) -> Recurrence:
        """The kernel, its memories numbered as its bindings and scratch are."""
        inputs, outputs = len(self.inputs), len(self.outputs)

        def number(memory: int) -> int:
            if memory < 0:
                return inputs + outputs - memory - 1
            return inputs + self.outputs.index(memory - _OUTPUT) if memory >= _OUTPUT else memory

        def place(old: Place) -> Place:
            return Place(memory=number(old.memory), start=old.start, turn=old.turn, steps=old.steps)

        def fill(old: Fill) -> Fill:
            return Fill(
                sizes=old.sizes,
                nodes=tuple(
                    Load(place=place(n.place)) if isinstance(n, Load) else n for n in old.nodes
                ),
                stores=tuple((place(p), n) for p, n in old.stores),
            )

        def stage(old: Stage) -> Stage:
            if isinstance(old, Fill):
                return fill(old)
            return Product(
                rows=old.rows,
                depth=old.depth,
                columns=old.columns,
                source=place(old.source),
                weights=old.weights,
                target=place(old.target),
            )

        sizes = [
            len(v.starts) * v.width * graph.shape(v.value)[1 if v.turned else 0]
            if isinstance(v, Weights)
            else math.prod(graph.shape(v))
            for v in self.inputs
        ]
        sizes += [math.prod(graph.shape(self.loop.results[p])) for p in self.outputs]
        return Recurrence(
            turns=turns,
            bindings=tuple(sizes),
            scratch=tuple(self.scratch),
            before=tuple(fill(f) for f in before),
            turn=tuple(stage(s) for s in stages),
            after=tuple(fill(f) for f in after),
        )
