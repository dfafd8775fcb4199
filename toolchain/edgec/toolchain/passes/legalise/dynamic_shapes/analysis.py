"""What is known of every size in a StableHLO function before it runs: values to `Size`s.

Sizes follow from the arguments' own through each operation, so that a rewrite can name them
without asking the device, and can tell which are equal. A module imported only by a pass that
runs; it needs the compiler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.runtime.signature import Dim
from edgec.toolchain.ir.read import call_target, is_dynamic, shape_of
from edgec.toolchain.passes.legalise.dynamic_shapes.rules import element_source, result_shapes
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import (
    Atom,
    Size,
    constant,
    dimension,
    element,
)

__all__ = ["Sizes"]


class Sizes:
    """The sizes of every tensor of one function, and of the integers that shapes are made of.

    Args:
        function: a `func.func` in StableHLO whose calls are inlined.
        dims: the name of each (argument, axis) that has one; equal names are equal sizes.
    """

    def __init__(self, function: Any, dims: Mapping[tuple[int, int], Dim] | None = None) -> None:
        self._known: dict[Any, tuple[Size, ...]] = {}
        self._elements: dict[Any, dict[int, Size]] = {}
        self._numbers: dict[Any, int] = {}
        self._values: list[Any] = []
        self._equal: dict[Atom, Size] = {}
        block = function.regions[0].blocks[0]
        first: dict[str, Size] = {}
        for (number, axis), dim in (dims or {}).items():
            size = self._unknown(block.arguments[number])[axis]
            known = first.setdefault(dim.name, size)
            if (atom := size.atom) is not None and known != size:
                self._equal[atom] = known
        for op in block.operations:
            self._learn(op.operation)
        self._visit(block)

    def of(self, value: Any) -> tuple[Size, ...]:
        """The size of every axis of a tensor."""
        if value not in self._known:
            self._known[value] = self._unknown(value)
        return self._known[value]

    def value(self, number: int) -> Any:
        """The value that an atom's number stands for."""
        return self._values[number]

    def elements(self, value: Any) -> tuple[Size, ...]:
        """The elements of a statically shaped integer tensor (or scalar), in row-major order."""
        count = 1
        for size in shape_of(value):
            count *= size or 0
        return tuple(self.element(value, position) for position in range(count))

    def element(self, value: Any, position: int = 0) -> Size:
        """One element of an integer tensor, followed to where it comes from."""
        known = self._elements.setdefault(value, {})
        if position not in known:
            found = None if is_dynamic(value) else self._follow(value, position)
            if found is None:
                found = self._atom(element(self._number(value), position))
            known[position] = found
        return known[position]

    def set(self, value: Any, shape: Sequence[Size]) -> None:
        """Tell the sizes of a value that a rewrite has made."""
        self._know(value, shape)

    def opaque(self, index: Any) -> Size:
        """An index value that a rewrite has made, as a size that equals no other."""
        return element(self._number(index), 0)

    def equalities(self, arguments: Sequence[Any]) -> list[tuple[int, int, Size]]:
        """What assertions say of the arguments: (argument, axis, the size that it must have)."""
        found = []
        for atom, size in self._equal.items():
            atoms = {atom} | size.atoms
            values = [self._values[a.value] for a in atoms if not a.arguments]
            plain = all(a.operation == "dimension" or a.arguments for a in atoms)
            if plain and all(value in arguments for value in values):
                number = arguments.index(self._values[atom.value])
                found.append((number, atom.position, size))
        return found

    def bits_per_dimension(self) -> int:
        """The widest that a dynamic dimension may be for every tensor to stay below 2^60 bytes."""
        bits = 31
        for shape in self._known.values():
            total = constant(8)
            for size in shape:
                total = total * size
            if total.degree:
                room = 60 - sum(abs(c) for _, c in total.terms).bit_length()
                bits = min(bits, max(8, room // total.degree))
        return bits

    def replace(self, old: Any, new: Any) -> None:
        """Let `new`, which has replaced `old` in the program, take over what is known."""
        self._known[new] = self.of(old)
        if old in self._numbers:
            number = self._numbers[new] = self._numbers[old]
            self._values[number] = new
        if old in self._elements:
            self._elements[new] = self._elements[old]

    def _number(self, value: Any) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self._values)
            self._values.append(value)
        return self._numbers[value]

    def _atom(self, size: Size) -> Size:
        atom = size.atom
        return self._equal.get(atom, size) if atom is not None else size

    def _unknown(self, value: Any) -> tuple[Size, ...]:
        return tuple(
            self._atom(dimension(self._number(value), axis)) if size is None else constant(size)
            for axis, size in enumerate(shape_of(value))
        )

    def _learn(self, op: Any) -> None:
        """Take `assert a == b` on sizes for a fact: a caller's wrong sizes are refused earlier."""
        if call_target(op) != "shape_assertion":
            return
        test = op.operands[0].owner
        if not isinstance(test, ir.Operation | ir.OpView) or test.name != "stablehlo.compare":
            return
        if " EQ" not in f" {test.attributes['comparison_direction']}".replace("<", " "):
            return
        left, right = (self.element(v) for v in test.operands)
        for one, other in ((left, right), (right, left)):
            atom = one.atom
            if atom is not None and not atom.arguments and atom not in other.atoms:
                self._equal[atom] = other
                break
        self._known.clear()
        self._elements.clear()

    def _visit(self, block: Any) -> None:
        for op in block.operations:
            self._infer(op.operation)

    def _infer(self, op: Any) -> None:
        if op.name == "stablehlo.while":
            return self._loop(op)
        if op.name in ("stablehlo.if", "stablehlo.case"):
            return self._branches(op)
        if not any(is_dynamic(r) for r in op.results):
            return None
        for result, shape in zip(op.results, result_shapes(self, op), strict=True):
            self._know(result, shape)
        return None

    def _know(self, value: Any, shape: Sequence[Size] | None) -> None:
        own = self._unknown(value) if shape is None else tuple(shape)
        static = shape_of(value)
        if len(own) == len(static):
            self._known[value] = tuple(
                size if number is None else constant(number)
                for size, number in zip(own, static, strict=True)
            )

    def _loop(self, op: Any) -> None:
        """Suppose that a loop keeps the sizes of what it carries, until its body says no."""
        condition, body = (region.blocks[0] for region in op.regions)
        yielded = body.operations[len(body.operations) - 1].operands
        entering = list(op.operands)
        kept = [True] * len(entering)
        while True:
            for i, value in enumerate(entering):
                for block in (condition, body):
                    self._know(block.arguments[i], self.of(value) if kept[i] else None)
            self._elements.clear()
            self._visit(condition)
            self._visit(body)
            lost = [
                i
                for i, value in enumerate(entering)
                if kept[i] and self.of(yielded[i]) != self.of(value)
            ]
            if not lost:
                break
            for i in lost:
                kept[i] = False
        for i, result in enumerate(op.results):
            self._know(result, self.of(entering[i]) if kept[i] else None)

    def _branches(self, op: Any) -> None:
        outcomes = []
        for region in op.regions:
            block = region.blocks[0]
            self._visit(block)
            outcomes.append(
                [self.of(v) for v in block.operations[len(block.operations) - 1].operands]
            )
        for result, *shapes in zip(op.results, *outcomes, strict=True):
            self._know(result, shapes[0] if len(set(shapes)) == 1 else None)

    def _follow(self, value: Any, position: int) -> Size | None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        return element_source(self, owner, position)
