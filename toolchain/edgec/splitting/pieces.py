"""A program's one function to pieces in a row, and any run of them to a program of its own.

Pieces are about equal in work, and end where little is alive: what is computed before and used
behind. Weights, and what follows from them alone, belong to whichever piece uses them.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import (
    PROGRAM_ATTRIBUTE,
    Dialect,
    Function,
    Input,
    Output,
    Parameter,
    Program,
    Role,
)
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Line", "Piece", "refuse_unsplittable"]

_NEAR = 0.25


@dataclass(frozen=True, order=True)
class _Value:
    """Argument `place` of the function (operation -1), or result `place` of an operation."""

    operation: int
    place: int


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A run of pieces: its program, and the numbers of the values it takes and gives."""

    program: Program
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def refuse_unsplittable(program: Program) -> None:
    """Refuse what is not cut into pieces, by name.

    Raises:
        UsageError: it is not.
    """
    info, why, hint = program.info, "", "export one function of fixed sizes without state"
    if info.mesh is not None:
        why = "is for a mesh of devices already"
        hint = "export it without --mesh"
    elif info.dialect is not Dialect.STABLEHLO:
        why = f"comes in the {info.dialect.value} dialect, and StableHLO is cut"
        hint = "export it from JAX, PyTorch, TensorFlow or ONNX"
    elif len(info.functions) != 1:
        names = [function.signature.name for function in info.functions]
        why = f"has {len(names)} functions, and one is cut"
        hint = f"split the model, and name one of them: --signature={names[0] if names else 'main'}"
    elif info.states:
        why = "keeps state between calls"
        hint = "let the function take its state and return it"
    elif open_ := _open_sizes(info.functions[0].signature):
        why = f"takes arrays of any size ({', '.join(open_)})"
        hint = "pieces are timed for one size: export it without --dynamic, once for each size"
    elif program.golden is None or not program.golden.calls:
        why = "has no golden answers, with whose inputs its pieces are timed"
        hint = "export it with example inputs, and keep NAME.golden.npz beside it"
    if why:
        raise UsageError(f"{program.name} {why}", hint=hint)


def _open_sizes(signature: Signature) -> list[str]:
    """The names of sizes that a call chooses."""
    specs = (*signature.inputs, *signature.outputs)
    named = [dim.name for spec in specs for dim in spec.shape if not isinstance(dim, int)]
    return list(dict.fromkeys(named))


class Line:
    """A program as a line of operations with places to cut it at.

    Attributes:
        cuts: before which operations pieces begin, and the end: one more than there are pieces.
        where: for each cut in between, the user's line of the operation before it.
    """

    def __init__(self, program: Program, pieces: int) -> None:
        """Read the program, and choose where to cut.

        Raises:
            UsageError: it is none that is cut.
        """
        from iree.compiler import ir

        from edgec.toolchain.ir.functions import entry_block, find_function
        from edgec.toolchain.ir.places import place_of

        refuse_unsplittable(program)
        self.program = program
        (self._function,) = program.info.functions
        self.signature = self._function.signature
        # A context that lives as long as the operations read here do.
        self._context = ir.Context()
        module = self._parsed()
        self._module = module
        main = find_function(module, self.signature.name)
        self._operations = [op.operation for op in entry_block(main).operations]
        self._arguments = list(entry_block(main).arguments)
        self._known = {value: _Value(-1, i) for i, value in enumerate(self._arguments)}
        for index, operation in enumerate(self._operations):
            for place, result in enumerate(operation.results):
                self._known[result] = _Value(index, place)
        self._uses = [self._used(operation) for operation in self._operations]
        self._fixed = self._find_fixed()
        self._last = self._last_uses()
        self.cuts = self._choose(pieces, _work(module, self._known, len(self._operations)))
        self.where = tuple(place_of(self._operations[cut - 1]) or "" for cut in self.cuts[1:-1])
        values = sorted(v for v in self._known.values() if v.operation >= 0)
        inputs = {
            _Value(-1, place): role.index
            for place, role in enumerate(self._function.arguments)
            if isinstance(role, Input)
        }
        first = len(self.signature.inputs)
        self._numbers = {**inputs, **{value: first + i for i, value in enumerate(values)}}

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of the values that the whole gives."""
        given = self._uses[-1]
        order = {
            role.index: given[place]
            for place, role in enumerate(self._function.results)
            if isinstance(role, Output)
        }
        return tuple(self._numbers[order[index]] for index in range(len(order)))

    def alive(self, cut: int) -> int:
        """Bytes that are computed before a cut and used behind it."""
        return sum(
            self._bytes(value)
            for value, last in self._last.items()
            if 0 <= value.operation < cut <= last
        )

    def run(self, start: int, end: int) -> Piece:
        """Pieces `start` to `end` (exclusive) as one program."""
        low, high = self.cuts[start], self.cuts[end]
        last = end == len(self.cuts) - 1
        used = sorted({v for uses in self._uses[low:high] for v in uses})
        inputs = [v for v in used if v.operation < low and not self._is_fixed(v)]
        outputs = [
            value
            for value in sorted(self._last)
            if low <= value.operation < high and self._last[value] >= high
        ]
        if last:  # what rests on weights alone, and is an answer
            outputs += [
                v for v in dict.fromkeys(self._uses[-1]) if v.operation >= 0 and self._is_fixed(v)
            ]
        name = f"pieces{start}to{end}"
        code, roles = self._extracted(name, inputs, outputs)
        signature = Signature.flat(
            name, [self._spec(v) for v in inputs], [self._spec(v) for v in outputs]
        )
        results = tuple(Output(index=i) for i in range(len(outputs)))
        function = Function(signature=signature, arguments=roles, results=results)
        weights = self.program.info.weights
        needed = tuple(role.name for role in roles if isinstance(role, Parameter))
        info = replace(
            self.program.info,
            functions=(function,),
            weights=replace(weights, names=needed) if weights is not None and needed else None,
        )
        return Piece(
            program=replace(
                self.program,
                bytecode=_written(code, info.to_json()),
                info=info,
                golden=None,
                values=None,
            ),
            inputs=tuple(self._numbers[v] for v in inputs),
            outputs=tuple(self._numbers[v] for v in outputs),
        )

    def _parsed(self) -> Any:
        from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

        module = parse_stablehlo(self.program.bytecode, self._context)
        with self._context:
            InlineCalls().run(module)
        return module

    def _used(self, operation: Any) -> list[_Value]:
        from edgec.toolchain.ir.functions import inside

        return [
            self._known[operand]
            for inner in (operation, *inside(operation))
            for operand in inner.operands
            if operand in self._known
        ]

    def _find_fixed(self) -> list[bool]:
        """Which operations rest on no input."""
        found: list[bool] = []
        for used in self._uses:
            found.append(
                all(found[v.operation] if v.operation >= 0 else self._is_fixed(v) for v in used)
            )
        return found

    def _is_fixed(self, value: _Value) -> bool:
        if value.operation >= 0:
            return self._fixed[value.operation]
        return isinstance(self._function.arguments[value.place], Parameter)

    def _last_uses(self) -> dict[_Value, int]:
        """The last operation that uses each value that a piece would have to give."""
        found: dict[_Value, int] = {}
        for index, used in enumerate(self._uses):
            if index < len(self._uses) - 1 and self._fixed[index]:
                continue
            for value in used:
                if not self._is_fixed(value):
                    found[value] = index
        return found

    def _choose(self, pieces: int, work: Sequence[float]) -> tuple[int, ...]:
        """Before which operations to cut: about equal work, little alive."""
        total, done = sum(work) or 1.0, 0.0
        shares: dict[int, float] = {}
        for index, amount in enumerate(work):
            done += amount
            if amount and done < total:
                shares[index + 1] = done / total * pieces
        inner: set[int] = set()
        for wanted in range(1, pieces):
            # A quarter of a piece to either side is near enough; else what is nearest.
            near = [cut for cut, share in shares.items() if abs(share - wanted) <= _NEAR]
            if near:
                inner.add(self._least_alive(near))
            elif shares:
                inner.add(_nearest(shares, wanted))
        return (0, *sorted(inner), len(self._operations) - 1)

    def _least_alive(self, cuts: Sequence[int]) -> int:
        return min(cuts, key=lambda cut: (self.alive(cut), cut))

    def _type(self, value: _Value) -> Any:
        from iree.compiler import ir

        if value.operation < 0:
            return ir.RankedTensorType(self._arguments[value.place].type)
        return ir.RankedTensorType(self._operations[value.operation].results[value.place].type)

    def _bytes(self, value: _Value) -> int:
        kind = self._type(value)
        each: int = DType.from_mlir(str(kind.element_type)).numpy.itemsize
        return int(math.prod(kind.shape)) * each

    def _spec(self, value: _Value) -> TensorSpec:
        kind = self._type(value)
        name = f"v{self._numbers[value]}"
        if value.operation < 0:
            role = self._function.arguments[value.place]
            if isinstance(role, Input):
                return replace(self.signature.inputs[role.index])
        dtype = DType.from_mlir(str(kind.element_type))
        return TensorSpec(name=name, shape=tuple(kind.shape), dtype=dtype)

    def _extracted(
        self, name: str, inputs: Sequence[_Value], outputs: Sequence[_Value]
    ) -> tuple[Any, tuple[Role, ...]]:
        """A copy of the program that holds what leads from some values to others."""
        from iree.compiler import ir

        from edgec.toolchain.ir.functions import entry_block, find_function

        module = self._parsed()
        main = find_function(module, self.signature.name)
        block = entry_block(main)
        operations = [op.operation for op in block.operations]

        def of(value: _Value) -> Any:
            if value.operation < 0:
                return block.arguments[value.place]
            return operations[value.operation].results[value.place]

        with self._context, main.location:
            for value in inputs:
                argument = block.add_argument(of(value).type, main.location)
                of(value).replace_all_uses_with(argument)
            with ir.InsertionPoint(operations[-1]):
                ir.Operation.create("func.return", operands=[of(v) for v in outputs])
            operations[-1].erase()
            for operation in reversed(operations[:-1]):
                if not any(True for result in operation.results for _ in result.uses):
                    operation.erase()
            roles: list[Role] = [Input(index=i) for i in range(len(inputs))]
            for place in reversed(range(len(self._arguments))):
                role = self._function.arguments[place]
                kept = any(True for _ in block.arguments[place].uses)
                if isinstance(role, Parameter) and kept:
                    roles.insert(0, role)
                else:
                    block.erase_argument(place)
            kinds = [argument.type for argument in block.arguments]
            results = [v.type for v in list(block.operations)[-1].operation.operands]
            main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))
            main.attributes["sym_name"] = ir.StringAttr.get(name)
            for note in ("arg_attrs", "res_attrs"):
                if note in main.attributes:
                    del main.attributes[note]
        return module, tuple(roles)


def _nearest(shares: Mapping[int, float], wanted: int) -> int:
    return min(shares, key=lambda cut: (abs(shares[cut] - wanted), cut))


def _work(module: Any, known: dict[Any, _Value], count: int) -> list[float]:
    """How much each operation of the function computes and moves, as one number."""
    from edgec.toolchain.ir.work import census

    found = [0.0] * count
    for computed in census(module):
        op = computed.op.operation
        while op is not None and op.results and op.results[0] not in known:
            parent = op.parent
            op = None if parent is None else parent.operation
        if op is not None and op.results:
            work = computed.work
            found[known[op.results[0]].operation] += work.flops + work.bytes
    return found


def _written(module: Any, info: str) -> bytes:
    from iree.compiler import ir

    with module.context:
        module.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(info)
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
    return to_portable(stream.getvalue())
