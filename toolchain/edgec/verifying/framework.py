"""What a framework computed on the way, beside the operations of its program: which is which.

An operation's location says which of the framework's values it is a part of (`framework_values`).
That names candidates; which of them is the value, its numbers prove: NumPy's evaluation of the
operation gives the same. What has no operation of its own, because the exporter wrote it otherwise,
is looked for by its numbers alone; what is not found there either is not in the program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from edgec.runtime.comparison import compare
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain.framework_values import FrameworkValue
from edgec.verifying.identity import allowing, held, may_hold
from edgec.verifying.reference import Operation, Reference

__all__ = ["Fate", "Found", "Framework", "beside_framework", "matched"]

_Array = np.ndarray[Any, np.dtype[Any]]
_LEAST = 8
"""Numbers by which alone a value is known."""
_MOVING = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim")


class Fate(Enum):
    """What became of a framework's value."""

    COMPARED = "compared"
    INSIDE = "inside"
    ABSENT = "not in the program"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A value of the framework's, and where it is.

    Attributes:
        value: the value.
        operation: the number of the operation that gives it; None where none does.
        by_place: whether the operation's location said so; else its numbers alone.
        fate: whether a kernel writes it, so that it was compared.
    """

    value: FrameworkValue
    operation: int | None
    by_place: bool
    fate: Fate

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "name": self.value.name,
            "operation": self.value.operation,
            "number": self.operation,
            "line": self.value.line,
            "shape": list(self.value.arrays[0].shape),
            "times": len(self.value.arrays),
            "by": None if self.operation is None else "place" if self.by_place else "numbers",
            "fate": self.fate.value,
        }


@dataclass(frozen=True, kw_only=True)
class Framework:
    """All values of one function.

    Attributes:
        name: whose they are.
        found: each value, in the order in which they were computed.
        first_other: the first that its operations do not give, where the program's answers are
            not the framework's: there the export is at fault.
    """

    name: str
    found: tuple[Found, ...]
    first_other: FrameworkValue | None

    def count(self, fate: Fate) -> int:
        """How many have this fate."""
        return sum(each.fate is fate for each in self.found)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        other = self.first_other
        return {
            "name": self.name,
            **{fate.name.lower(): self.count(fate) for fate in Fate},
            "by_numbers": sum(
                each.operation is not None and not each.by_place for each in self.found
            ),
            "first_other": None if other is None else {"name": other.name, "line": other.line},
            "values": [each.to_json() for each in self.found],
        }


@dataclass(frozen=True, kw_only=True)
class Matched:
    """Values and the operations that give them, before any kernel is looked at."""

    places: tuple[tuple[FrameworkValue, int | None, bool], ...]
    reference: Reference


def matched(
    values: Sequence[FrameworkValue],
    operations: Sequence[Operation],
    reference: Reference,
    function: str,
    tolerance: Tolerance | None,
) -> Matched:
    """Find the operation that gives each value, and let the framework's numbers be the reference.

    Args:
        values: the framework's, of one call of `function`.
        operations: the program's, by number.
        reference: what NumPy gives for the same call.
        function: the function's name.
        tolerance: how far values may be off; None for each type's default.
    """
    known = {
        number: numbers
        for number, numbers in reference.values.items()
        if numbers and operations[number].function == function
    }
    of: dict[int, list[int]] = {}
    for number in known:
        part = operations[number].part_of
        if part is not None:
            of.setdefault(part, []).insert(0, number)
    places: list[tuple[FrameworkValue, int | None, bool]] = []
    theirs: dict[int, tuple[_Array, ...]] = {}
    within: dict[int, float] = {}
    usual = tolerance
    for value in values:
        tolerance = allowing(usual, value.arrays[0].dtype, value.within)
        own = of.get(value.number, [])
        place = next((n for n in own if _gives(n, known, operations, value, tolerance)), None)
        by_place = place is not None
        if place is None and value.arrays[0].size >= _LEAST:
            place = next((n for n in known if _gives(n, known, operations, value, tolerance)), None)
        places.append((value, place, by_place))
        if place is not None and operations[place].results == 1:
            theirs[place] = tuple(
                np.asarray(array).astype(numbers.dtype)
                for array, numbers in zip(value.arrays, known[place], strict=False)
            )
            within[place] = value.within
    return Matched(
        places=tuple(places),
        reference=replace(reference, values={**reference.values, **theirs}, within=within),
    )


def beside_framework(
    name: str,
    found: Matched,
    stands: Sequence[int | None],
    operations: Sequence[Operation],
) -> Framework:
    """Say what became of each value.

    Args:
        name: whose values they are.
        found: where they are.
        stands: the operations whose values kernels write.
        operations: the program's, by number.
    """
    sizes = {number: values[0].size for number, values in found.reference.values.items() if values}
    written = {_source(number, operations, sizes) for number in stands if number is not None}
    told = []
    for value, place, by_place in found.places:
        fate = Fate.ABSENT
        if place is not None:
            is_written = _source(place, operations, sizes) in written
            fate = Fate.COMPARED if is_written else Fate.INSIDE
        told.append(Found(value=value, operation=place, by_place=by_place, fate=fate))
    parts = {each.part_of for each in operations}
    other = (
        each.value
        for each in told
        if each.fate is Fate.ABSENT and each.value.number in parts and found.reference.problem
    )
    return Framework(name=name, found=tuple(told), first_other=next(other, None))


def _gives(
    number: int,
    known: Mapping[int, tuple[_Array, ...]],
    operations: Sequence[Operation],
    value: FrameworkValue,
    tolerance: Tolerance | None,
) -> bool:
    """Whether an operation gives a value, each time that it is computed."""
    results = max(operations[number].results, 1)
    arrays = known[number]
    times = len(arrays) // results
    if times != len(value.arrays):
        return False
    return any(
        all(
            _same(theirs, arrays[time * results + result], tolerance)
            for time, theirs in enumerate(value.arrays)
        )
        for result in range(results)
    )


def _same(theirs: _Array, ours: _Array, tolerance: Tolerance | None) -> bool:
    """Whether two values are the same numbers, in whatever order of the axes."""
    if theirs.size != ours.size:
        return False
    if theirs.shape == ours.shape:
        return compare(theirs.astype(ours.dtype), ours, tolerance).ok
    if not may_hold(theirs, ours):
        return False
    found = held(theirs.astype(ours.dtype), ours, tolerance)
    return found is not None and found.comparison.ok


def _source(number: int, operations: Sequence[Operation], sizes: Mapping[int, int]) -> int:
    """The operation that gave the numbers that one only moves."""
    while operations[number].name in _MOVING:
        (read, *_) = operations[number].reads or (number,)
        if read == number or sizes.get(read) != sizes.get(number):
            break
        number = read
    return number
