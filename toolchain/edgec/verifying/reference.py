"""A program to what each of its values should be: NumPy's, in f64, operation by operation.

NumPy shares nothing with what a module is compiled from (`ir.interpret`), and its answers are
compared with the framework's before anything rests on them. So the values are the framework's own
but for rounding, and they have the program's names: the number and line of each operation.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgec.runtime.comparison import compare_call
from edgec.runtime.errors import ProgramError
from edgec.runtime.golden import Golden
from edgec.toolchain.computed import answered, weights_of
from edgec.toolchain.framework_values import MOST_TIMES, placed
from edgec.toolchain.program import Dialect, Function, Parameter, Program

__all__ = ["Numbered", "Operation", "Reference", "numbered", "refer"]

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of a program.

    Attributes:
        name: as StableHLO has it.
        line: `file:line` of the user's own source; empty where the framework kept none.
        function: the function that it is in.
        depends: whether what it gives depends on what the caller gives, or on state.
        reads: the operations whose results it reads, also inside of its regions.
        results: how many it gives.
        part_of: the number of the framework's value that it is a part of (`framework_values`);
            None where the program does not say.
    """

    name: str
    line: str
    function: str
    depends: bool
    reads: tuple[int, ...] = ()
    results: int = 1
    part_of: int | None = None


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A program whose operations carry numbers, and what each is.

    Attributes:
        program: with numbers in its locations, calls inlined.
        module: the same, an `ir.Module`.
        operations: by number.
    """

    program: Program
    module: Any
    operations: tuple[Operation, ...]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the values of one call should be.

    Attributes:
        values: by operation, of each result; those of loops one after the other.
        problem: how NumPy's answers differ from the framework's; empty where they do not.
        within: how far the framework's own ways to compute an operation's value are apart.
    """

    values: Mapping[int, tuple[_Array, ...]]
    problem: str
    within: Mapping[int, float] = field(default_factory=dict)


def numbered(program: Program) -> Numbered:
    """Inline a program's calls, and number its operations.

    Raises:
        ProgramError: it is not StableHLO, or damaged.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import functions, inside
    from edgec.toolchain.ir.numbering import number_operations, numbers_at
    from edgec.toolchain.ir.places import place_of
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    if program.info.dialect is not Dialect.STABLEHLO:
        raise ProgramError(
            f"values on the way are compared in StableHLO, and this is "
            f"{program.info.dialect.value}",
            hint="export the model again with this version of edgec",
        )
    module = parse_stablehlo(program.bytecode, ir.Context())
    InlineCalls().run(module)
    number_operations(module)
    roles = {each.signature.name: each for each in program.info.functions}
    found = []
    for name, function in functions(module).items():
        dependent = _dependent(function, roles.get(name))
        made = {
            value: numbers_at(op.location)[0] for op in inside(function) for value in op.results
        }
        for op in inside(function):
            read = (*op.operands, *(v for each in inside(op) for v in each.operands))
            found.append(
                Operation(
                    name=op.name,
                    line=place_of(op) or "",
                    function=name,
                    depends=any(value in dependent for value in op.results),
                    reads=tuple(dict.fromkeys(made[v] for v in read if v in made)),
                    results=len(op.results),
                    part_of=placed(op.location),
                )
            )
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return Numbered(
        program=replace(program, bytecode=buffer.getvalue()),
        module=module,
        operations=tuple(found),
    )


def _dependent(function: Any, roles: Function | None) -> set[Any]:
    """The values of a function that depend on its arguments, but for weights."""
    from edgec.toolchain.ir.functions import entry_block, inside

    given = entry_block(function).arguments
    weights = [isinstance(r, Parameter) for r in roles.arguments] if roles is not None else []
    found = {
        argument
        for number, argument in enumerate(given)
        if number >= len(weights) or not weights[number]
    }
    for op in inside(function):
        within = [v for each in inside(op) for v in each.operands]
        if any(value in found for value in (*op.operands, *within)):
            found |= set(op.results)
            for region in op.regions:
                for block in region.blocks:
                    found |= set(block.arguments)
    return found


def refer(numbers: Numbered, golden: Golden, call: int) -> Reference:
    """Compute a program's calls in NumPy, and keep what every operation of one gives.

    Args:
        numbers: the program.
        golden: its calls; those before `call` are made first, since state carries over.
        call: which of them.

    Raises:
        ProgramError: something in the program is not known in NumPy.
    """
    from edgec.toolchain.ir.numbering import numbers_at

    program = numbers.program
    kept: dict[int, list[_Array]] = {}
    places: dict[Any, tuple[int, ...]] = {}

    def see(number: int, op: Any, results: Any) -> None:
        if number != call:
            return
        if op not in places:
            places[op] = numbers_at(op.location)
        for each in places[op]:
            known = kept.setdefault(each, [])
            if numbers.operations[each].depends:
                # Of many turns the last stays: that is what comes out of a loop.
                if len(known) >= MOST_TIMES * len(results):
                    del known[-len(results) :]
                known += [
                    _narrow(value, result)
                    for value, result in zip(op.results, results, strict=True)
                ]

    calls = Golden(calls=golden.calls[: call + 1])
    found = answered(numbers.module, program.info, weights_of(program), calls, seen=see)
    problems = [
        comparison.problem
        for comparison in compare_call(golden.calls[call], found.calls[call].outputs)
        if not comparison.ok
    ]
    return Reference(
        values={number: tuple(values) for number, values in kept.items()},
        problem=next(iter(problems), ""),
    )


def _narrow(value: Any, array: _Array) -> _Array:
    """An array in the type that the program gives it, where NumPy has that."""
    from edgec.runtime.dtypes import DType
    from edgec.runtime.errors import InputError

    try:
        kind = DType.from_mlir(str(value.type.element_type)).numpy
    except InputError:
        return np.array(array)
    with np.errstate(over="ignore"):
        return np.array(array).astype(kind)
