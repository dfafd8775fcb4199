"""What the dispatches of a module wrote, beside what it should be: the first that is wrong.

Each value that a dispatch writes stands for one of the model's (`ir.numbering`), or for none: a
matrix that was packed, a sum that another kernel goes on with. What stands for none is right where
all that is made of it is right. So the first wrong one is named, whatever lies between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from edgec.runtime.closeness import Closeness, closeness
from edgec.runtime.comparison import Comparison
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain.taps import Tap, Taps
from edgec.verifying.framework import Framework
from edgec.verifying.identity import Held, allowing, held, may_hold
from edgec.verifying.reference import Operation, Reference

__all__ = ["Layer", "Layers", "State", "compare_layers"]

_Array = np.ndarray[Any, np.dtype[Any]]


class State(Enum):
    """How a value fared."""

    RIGHT = "right"
    MOVED = "moved"
    INSIDE = "inside"
    WRONG = "WRONG"
    AFTER = "after it"
    UNKNOWN = "not known"
    UNSEEN = "not seen"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A value that a dispatch wrote.

    Attributes:
        number: of the tap.
        kernel: the kernel's name where it is edgec's own; empty where the compiler made it.
        operation: the number of the operation whose value it stands for; None where it is none's.
        name: what that operation is.
        line: `file:line` of the user's own source, the first of `lines`.
        lines: of all that is computed between what the dispatch reads and what it writes, in the
            order of the program; of a wrong one that still holds an earlier value, from there on.
        operations: the numbers of all that is computed between these.
        shape: as the dispatch wrote it.
        dtype: NumPy's name of its type.
        state: how it fared.
        comparison: with what it should be; None where there is nothing to compare it with.
        closeness: the same as a whole.
        why: for those not seen, why.
    """

    number: int
    kernel: str
    operation: int | None
    name: str
    line: str
    lines: tuple[str, ...]
    operations: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    state: State
    comparison: Comparison | None
    closeness: Closeness | None
    why: str = ""

    @property
    def error(self) -> float | None:
        """The root mean square of the differences as a part of the value's spread."""
        return None if self.comparison is None else self.comparison.error

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "number": self.number,
            "kernel": self.kernel,
            "operation": self.operation,
            "name": self.name,
            "line": self.line,
            "lines": list(self.lines),
            "operations": list(self.operations),
            "shape": list(self.shape),
            "dtype": self.dtype,
            "state": self.state.value,
            "error": self.error,
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "closeness": None if self.closeness is None else self.closeness.to_json(),
            "why": self.why,
        }


@dataclass(frozen=True, kw_only=True)
class Layers:
    """All values that were compared, in the order in which they are computed.

    Attributes:
        layers: the values.
        fused: values of the model that no dispatch writes: they are inside of kernels.
        nested: dispatches in loops and branches that were not looked into.
        framework: what became of the framework's own values; None where they are not known.
    """

    layers: tuple[Layer, ...]
    fused: int
    nested: int
    framework: Framework | None = None

    @property
    def first_wrong(self) -> Layer | None:
        """The first value that is wrong though all that it was made of is right.

        Where every one that could be compared is right and the answers are wrong, the first of
        which nothing is known.
        """
        wrong = (each for each in self.layers if each.state is State.WRONG)
        unknown = (each for each in self.layers if each.state is State.UNKNOWN)
        return next(wrong, None) or next(unknown, None)

    def count(self, state: State) -> int:
        """How many values fared so."""
        return sum(each.state is state for each in self.layers)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        first = self.first_wrong
        return {
            "first_wrong": None if first is None else first.to_json(),
            "layers": [each.to_json() for each in self.layers],
            "fused": self.fused,
            "nested": self.nested,
            "framework": None if self.framework is None else self.framework.to_json(),
        }


def compare_layers(
    taps: Taps,
    answers: Sequence[_Array],
    inputs: Sequence[_Array],
    outputs_right: Sequence[bool],
    operations: Sequence[Operation],
    reference: Reference,
    function: str,
    tolerance: Tolerance | None,
) -> Layers:
    """Say of each tap how it fared.

    Args:
        taps: of the function that was called.
        answers: all outputs of the call, taps among them.
        inputs: what it was called with.
        outputs_right: of each output of the function's own, whether it is right.
        operations: the program's, by number.
        reference: what its values should be.
        function: the function's name.
        tolerance: how far values may be off; None for each type's default.
    """
    work = _Comparing(taps, answers, inputs, operations, reference, tolerance)
    work.stand()
    work.settle(outputs_right)
    known = {each for each in work.stands if each is not None}
    fused = sum(
        each.depends and each.function == function and number not in known
        for number, each in enumerate(operations)
        if number in reference.values
    )
    return Layers(layers=tuple(work.layers()), fused=fused, nested=taps.nested)


class _Comparing:
    """The taps of one call, each with what it stands for and how it fared so far."""

    def __init__(
        self,
        taps: Taps,
        answers: Sequence[_Array],
        inputs: Sequence[_Array],
        operations: Sequence[Operation],
        reference: Reference,
        tolerance: Tolerance | None,
    ) -> None:
        self.taps = taps
        self.arrays = [None if t.output is None else answers[t.output] for t in taps.taps]
        self.inputs = inputs
        self.operations = operations
        self.values: Mapping[int, tuple[_Array, ...]] = reference.values
        self.within = reference.within
        self.tolerance = tolerance
        count = len(taps.taps)
        self.states: list[State | None] = [None] * count
        self.stands: list[int | None] = [None] * count
        self.holds: list[Held | None] = [None] * count
        self.reached: list[int | None] = [None] * count
        self.copied: list[int | None] = [None] * count
        self.whys = [each.why for each in taps.taps]

    def stand(self) -> None:
        """Find what each tap stands for, where that is what it should be."""
        for number, (each, array) in enumerate(zip(self.taps.taps, self.arrays, strict=True)):
            if array is None:
                self.states[number] = State.UNSEEN
                self.stands[number] = max(each.numbers, default=None)
                continue
            if each.loop is not None and self._is_not_reached(each):
                self.states[number] = State.UNSEEN
                self.whys[number] = "in a loop or branch that this call does not go through"
                continue
            if self._is_its_value(number, each, array) or self._is_moved(number, each, array):
                continue
            self._is_a_later_value(number, each, array)

    def _is_its_value(self, number: int, each: Tap, array: _Array) -> bool:
        """Whether a tap is the last of the values that it was made of; else how near it comes."""
        for operation in reversed(each.numbers):
            found = self._nearest(array, operation)
            if found is None:
                continue
            self.stands[number], self.holds[number] = operation, found
            if found.comparison.ok:
                self.states[number] = State.RIGHT
                return True
            return False
        return False

    def _is_moved(self, number: int, each: Tap, array: _Array) -> bool:
        """Whether a tap is a value that it read, with its axes in another order or a border."""
        read = [(self._array_of(source), self.stands[source], source) for source in each.reads]
        given = [self.inputs[place] for place in each.given if place < len(self.inputs)]
        for value, stands, source in [*read, *((value, None, None) for value in given)]:
            if value is None or not may_hold(array, value):
                continue
            found = held(array, value, self.tolerance)
            if found is not None and found.comparison.ok and found.is_moved:
                self.states[number], self.holds[number] = State.MOVED, found
                self.stands[number], self.copied[number] = stands, source
                return True
        return False

    def _array_of(self, tap: int) -> _Array | None:
        """The value that a tap stands for, as it should be, where the tap is right."""
        found = self.holds[tap]
        return found.wanted if found is not None and found.comparison.ok else self.arrays[tap]

    def _is_a_later_value(self, number: int, each: Tap, array: _Array) -> bool:
        """Whether a tap is a value further on: a dispatch names what it began with.

        A value before the one that it stands for is none: it may be what is left of that when an
        operation is lost.
        """
        last = max(each.covers or each.numbers, default=None)
        for operation, values in self.values.items():
            if last is None or not any(may_hold(array, value) for value in values):
                continue
            found = self._nearest(array, operation)
            if found is None or not found.comparison.ok or array.size < _LEAST:
                continue
            if operation > last:
                self.stands[number], self.holds[number] = operation, found
                self.states[number] = State.RIGHT
                return True
            self.reached[number] = operation
        return False

    def _nearest(self, array: _Array, operation: int) -> Held | None:
        """How near an array comes to a value of an operation."""
        allowed = allowing(self.tolerance, array.dtype, self.within.get(operation, 0.0))
        found = [
            each
            for value in self.values.get(operation, ())
            if (each := held(array, value, allowed)) is not None
        ]
        return min(
            found, key=lambda each: (not each.comparison.ok, each.comparison.error), default=None
        )

    def settle(self, outputs_right: Sequence[bool]) -> None:
        """Decide what stands for nothing of the model: right if all that is made of it is."""
        fine: list[bool] = []
        for state, source in zip(self.states, self.copied, strict=True):
            is_copied_right = state is State.MOVED and (source is None or fine[source])
            fine.append(state is State.RIGHT or is_copied_right)
        readers: list[list[int]] = [[] for _ in fine]
        ends: list[list[bool]] = [[] for _ in fine]
        for number, each in enumerate(self.taps.taps):
            for source in each.reads:
                readers[source].append(number)
        for sources, is_right in zip(self.taps.outputs, outputs_right, strict=True):
            for source in sources:
                ends[source].append(is_right)
        for number in reversed(range(len(fine))):
            if not fine[number]:
                after = [*(fine[reader] for reader in readers[number]), *ends[number]]
                fine[number] = all(after)
                if fine[number] and self.states[number] is None:
                    self.states[number] = State.INSIDE
        bad: set[int] = set()
        for number, each in enumerate(self.taps.taps):
            if self.states[number] is None:
                after_bad = any(source in bad for source in each.reads)
                if not after_bad and self.holds[number] is None:
                    self.states[number] = State.UNKNOWN
                    continue
                gaps = [] if after_bad else [s for s in each.reads if self._has_a_gap(s)]
                for source in gaps:
                    self.states[source] = State.WRONG
                    self.whys[source] = "what lies around it is not written, and was read"
                self.states[number] = State.AFTER if after_bad or gaps else State.WRONG
                bad.add(number)
            elif not fine[number] and any(source in bad for source in each.reads):
                bad.add(number)

    def _has_a_gap(self, number: int) -> bool:
        """Whether a tap holds a value of numbers with something around it that is no number."""
        array, found = self.arrays[number], self.holds[number]
        if array is None or found is None or array.dtype.kind != "f":
            return False
        return bool(np.isfinite(found.actual).all() and not np.isfinite(array).all())

    def layers(self) -> list[Layer]:
        """What is known of each tap."""
        return [self._layer(number, each) for number, each in enumerate(self.taps.taps)]

    def _layer(self, number: int, each: Tap) -> Layer:
        state, found, array = self.states[number], self.holds[number], self.arrays[number]
        operation = self.stands[number]
        made = self._made(number, each)
        found_lines = dict.fromkeys(self.operations[operation].line for operation in made)
        lines = tuple(line for line in found_lines if line) or (each.line,)
        seen = found is not None and state not in (State.INSIDE, State.UNSEEN)
        return Layer(
            number=number,
            kernel=each.kernel,
            operation=operation,
            name="" if operation is None else self.operations[operation].name,
            line=lines[0],
            lines=lines,
            operations=tuple(made),
            shape=() if array is None else array.shape,
            dtype="" if array is None else str(array.dtype),
            state=state or State.UNSEEN,
            comparison=found.comparison if seen and found is not None else None,
            closeness=closeness(found.actual, found.wanted) if seen and found is not None else None,
            why=self.whys[number],
        )

    def _is_not_reached(self, each: Tap) -> bool:
        """Whether what a tap is made of was not computed at all."""
        made = [n for n in (*each.numbers, *each.covers) if self.operations[n].depends]
        return bool(made) and not any(self.values.get(number) for number in made)

    def _made(self, number: int, each: Tap) -> list[int]:
        """The operations between what a dispatch reads and what it writes, in their order."""
        made = sorted(self._between(number, each) or {*each.covers, *each.numbers})
        if each.loop is not None and self.states[number] is State.WRONG:
            # Of the last turn: whatever is in the loop may have made it wrong in an earlier one.
            inside = [(n, t) for n, t in enumerate(self.taps.taps) if t.loop == each.loop]
            return sorted({m for n, t in inside for m in (*t.covers, *self._between(n, t))})
        reached = self.reached[number]
        if self.states[number] is State.WRONG and reached is not None:
            made = [operation for operation in made if operation > reached] or made
        return made

    def _between(self, number: int, each: Tap) -> set[int]:
        """The operations that lead to what a tap stands for, from what the taps it reads do.

        Also those that are lost: of them no kernel says anything.
        """
        stands = self.stands[number]
        if stands is None:
            return set()
        known = {self.stands[source] for source in each.reads}
        found: set[int] = set()
        waiting = [stands]
        while waiting:
            operation = waiting.pop()
            if operation in found or (operation in known and operation != stands):
                continue
            if self.operations[operation].depends:
                found.add(operation)
                waiting += self.operations[operation].reads
        return found


_LEAST = 8
"""Numbers of which another value than the one that a tap stands for is known by chance."""
