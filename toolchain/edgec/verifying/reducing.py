"""A part of a program as a program of its own: what stands between two operations.

What the part reads from before it becomes its arguments, with the numbers that NumPy gives them;
what its last operation gives is what it returns. So a fault that shows in a whole network shows, if
it is in the part, in a few operations with inputs beside them, which is what a report needs.
"""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.computed import answered, weights_of
from edgec.toolchain.program import PROGRAM_ATTRIBUTE, Input, Parameter, Program, State
from edgec.verifying.reference import Numbered, Reference

__all__ = ["Part", "Parts"]

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a program.

    Attributes:
        program: the part, which describes itself.
        golden: one call of it, whose answers are NumPy's.
        text: the same as MLIR text.
        count: how many operations it has.
        lines: `file:line` of the user's own source that they come from, or `node NAME`.
    """

    program: Program
    golden: Golden
    text: str
    count: int
    lines: tuple[str, ...]


class Parts:
    """The parts of one function of a program, by the places where they begin and end."""

    def __init__(self, numbers: Numbered, reference: Reference, golden: Golden, call: int) -> None:
        """Take a function that was called.

        Args:
            numbers: the program.
            reference: what its values should be in that call.
            golden: all calls.
            call: which of them.
        """
        self._numbers = numbers
        self._reference = reference
        self._call = golden.calls[call]
        self._states = _states(numbers, golden, call)
        # Numbers of the operations of the function's own block, in order, but for its return.
        self.places = _places(numbers, self._call.signature)

    def __len__(self) -> int:
        return len(self.places)

    def place_of(self, operation: int) -> int:
        """The place of an operation, or of the one that it is inside of."""
        return max(place for place, number in enumerate(self.places) if number <= operation)

    def is_end(self, place: int) -> bool:
        """Whether a part can end here: with something that depends on what the caller gives."""
        number = self.places[place]
        known = self._reference.values.get(number)
        return self._numbers.operations[number].depends and bool(known)

    def part(self, first: int, last: int) -> Part:
        """The operations from one place to another, both taken.

        Raises:
            ProgramError: NumPy does not know it.
        """
        from iree.compiler import ir

        from edgec.toolchain.describe import describe
        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.functions import entry_block, find_function, functions
        from edgec.toolchain.ir.places import place_of
        from edgec.toolchain.stablehlo import parse_stablehlo

        module = parse_stablehlo(self._numbers.program.bytecode, ir.Context())
        name = self._call.signature
        with module.context, ir.Location.unknown():
            for other, operation in functions(module).items():
                if other != name:
                    operation.erase()
            function = find_function(module, name)
            block = entry_block(function)
            given = list(zip(block.arguments, self._given(), strict=True))
            (*body, end) = (op.operation for op in block.operations)
            with ir.InsertionPoint(end):
                ir.Operation.create("func.return", operands=list(body[last].results))
            for op in (end, *reversed(body[last + 1 :])):
                op.erase()
            for place in reversed(range(first)):
                if self.is_end(place):
                    given += self._cut(block, body[place], self.places[place])
            erase_unused(module)
            inputs = _keep_used(block, given)
            _set_type(function)
            attributes = module.operation.attributes
            if PROGRAM_ATTRIBUTE in attributes:
                del attributes[PROGRAM_ATTRIBUTE]
            module.operation.verify()
            left = [op.operation for op in block.operations][:-1]
            reads = [op for op in left if list(op.operands)]  # constants have lines of their own
            lines = dict.fromkeys(line for op in reads if (line := place_of(op)))
            outputs = tuple(
                np.zeros(shape, kind) for shape, kind in self._results(self.places[last])
            )
            asked = Golden(
                calls=(GoldenCall(signature=name, inputs=tuple(inputs), outputs=outputs),)
            )
            info = describe(module, "a part")
            known = answered(module, info, {}, asked)
            buffer = io.BytesIO()
            module.operation.write_bytecode(buffer)
            text = module.operation.get_asm(large_elements_limit=None)
        return Part(
            program=Program(bytecode=buffer.getvalue(), info=info, golden=known),
            golden=known,
            text=text,
            count=len(left),
            lines=tuple(lines),
        )

    def _cut(self, block: Any, op: Any, number: int) -> list[tuple[Any, _Array]]:
        """Arguments in place of what an operation gives, with their numbers."""
        values = self._reference.values[number]
        found = []
        for value, array in zip(op.results, values, strict=False):
            if list(value.uses):
                argument = block.add_argument(value.type, op.location)
                value.replace_all_uses_with(argument)
                found.append((argument, array))
        op.erase()
        return found

    def _results(self, number: int) -> list[tuple[tuple[int, ...], Any]]:
        return [(value.shape, value.dtype) for value in self._reference.values[number]]

    def _given(self) -> list[_Array]:
        """What the function's arguments are in the call."""
        program = self._numbers.program
        weights = weights_of(program)
        function = next(
            each for each in program.info.functions if each.signature.name == self._call.signature
        )
        found: list[_Array] = []
        for role in function.arguments:
            if isinstance(role, Parameter):
                found.append(weights[role.name])
            elif isinstance(role, State):
                found.append(self._states[role.name])
            elif isinstance(role, Input):
                found.append(self._call.inputs[role.index])
        return found


def _states(numbers: Numbered, golden: Golden, call: int) -> dict[str, _Array]:
    """What the program keeps, as it is before a call."""
    if not numbers.program.info.states:
        return {}
    found: dict[str, _Array] = {}
    answered(
        numbers.module,
        numbers.program.info,
        weights_of(numbers.program),
        Golden(calls=golden.calls[:call]),
        kept=found,
    )
    specs = {spec.name: spec for spec in numbers.program.info.states}
    return {name: array.astype(specs[name].dtype.numpy) for name, array in found.items()}


def _places(numbers: Numbered, name: str) -> list[int]:
    from edgec.toolchain.ir.functions import entry_block, find_function
    from edgec.toolchain.ir.numbering import numbers_at

    block = entry_block(find_function(numbers.module, name))
    (*body, _) = (op.operation for op in block.operations)
    return [numbers_at(op.location)[0] for op in body]


def _keep_used(block: Any, given: list[tuple[Any, _Array]]) -> list[_Array]:
    """Drop the arguments that nothing reads; the numbers of the others, in their order."""
    arrays = [array for _, array in given]
    for index in reversed(range(len(block.arguments))):
        if not list(block.arguments[index].uses):
            block.erase_argument(index)
            del arrays[index]
    return arrays


def _set_type(function: Any) -> None:
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import entry_block, returns

    inputs = [argument.type for argument in entry_block(function).arguments]
    results = [value.type for value in next(returns(function)).operands]
    attributes = function.attributes
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    attributes["sym_visibility"] = ir.StringAttr.get("public")
    for key in ("arg_attrs", "res_attrs"):
        if key in attributes:
            del attributes[key]
