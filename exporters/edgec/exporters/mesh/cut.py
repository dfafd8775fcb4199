"""A device's program with collectives in it to parts without, and what happens between the parts.

Every value has a level: how many collectives one after the other it rests on. The operations of a
level are one part, and the collectives whose operands are of a level are carried out together
behind it. What is cheap and rests on no input (constants, masks, weights made larger) is made anew
in each part. A loop or a branch in which devices speak (`loops`) is cut in the same way, and stands
between parts as a collective does.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.exporters.from_jax.refusals import place_of_location, refuse_custom_calls
from edgec.exporters.mesh.calls import LOOP, target_of
from edgec.exporters.mesh.loops import kind_of
from edgec.exporters.mesh.ways import Callback
from edgec.runtime.errors import UnsupportedOp
from edgec.runtime.mesh.collectives import OPERATIONS
from edgec.runtime.mesh.plan import CALLBACK, COLLECTIVES, Collective
from edgec.toolchain.ir.functions import find_function, inside
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["Cut", "Flow", "Part", "cut_program"]

_NAMES = {f"stablehlo.{kind}": kind for kind in COLLECTIVES}
_NUMBER = "stablehlo.partition_id"
_ELSEWHERE = {
    "stablehlo.replica_id": "asks for its replica, and edgec's devices are partitions",
    "stablehlo.send": "sends to a host",
    "stablehlo.recv": "receives from a host",
    "stablehlo.infeed": "reads from a host",
    "stablehlo.outfeed": "writes to a host",
}
_CHEAP = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("constant", "iota", "broadcast_in_dim", "reshape", "convert", "compare", "select"),
        *("add", "subtract", "multiply", "divide", "remainder", "and", "or", "not", "negate"),
        *("slice", "dynamic_slice", "concatenate", "minimum", "maximum", "clamp"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part: StableHLO bytecode with the function `main`.

    Attributes:
        module: the code; its arguments are `inputs`, then the device's number if `numbered`.
        inputs: the values it takes: arguments of the whole first, then as they are made.
        outputs: the values it gives.
        numbered: whether it asks which device it is on.
    """

    module: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    numbered: bool


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A loop or a branch in which devices speak, as `ways.Turns` has it.

    Attributes:
        kind: while, case or if.
        inputs: the values that it takes.
        outputs: the values that it makes.
        cuts: of a loop its condition and what it repeats, of a branch each case.
        where: the user's line.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cuts: tuple["Cut", ...]
    where: str


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A program's parts and collectives in order, and the shapes and types of all values.

    Attributes:
        arguments: how many it takes; their values are the first.
        steps: parts, collectives, calls of the host's code, loops and branches.
        types: of each value by its number: shape and MLIR's name of its elements.
        results: the values that the whole gives.
    """

    arguments: int
    steps: tuple[Part | Collective | Callback | Flow, ...]
    types: Mapping[int, tuple[tuple[int, ...], str]]
    results: tuple[int, ...]


@dataclass(frozen=True)
class _Value:
    """A value of `main` in any copy of it: argument `place`, or result `place` of operation."""

    operation: int | None
    place: int


def cut_program(text: str, name: str, *, weights: frozenset[int]) -> Cut:
    """Cut a program of one device at its collectives.

    Args:
        text: StableHLO with the function `main`, without calls but those of `loops`.
        name: the signature, for messages.
        weights: which arguments are parameters: no value between parts.

    Raises:
        UnsupportedOp: a collective of a kind that there is not.
    """
    from iree.compiler import ir

    with ir.Context() as context, ir.Location.unknown():
        # The operations' order is all that copies have in common.
        module = parse_stablehlo(text, context)
        refuse_custom_calls(module, name, but={LOOP, CALLBACK})
        return _Cutter(text, module, name, weights, "main").cut()


class _Cutter:
    def __init__(
        self, text: str, module: Any, name: str, weights: frozenset[int], function: str
    ) -> None:
        self._text = text
        self._name = name
        self._function = function
        self._weights = weights
        self._module = module
        block = find_function(module, function).regions[0].blocks[0]
        self._arguments = list(block.arguments)
        self._operations = [op.operation for op in block.operations]
        self._known = {value: _Value(None, i) for i, value in enumerate(self._arguments)}
        for index, operation in enumerate(self._operations):
            for place, result in enumerate(operation.results):
                self._known[result] = _Value(index, place)
        self._speaks = [_speaks(operation) for operation in self._operations]
        self._uses = [self._used(operation) for operation in self._operations]
        self._refuse_inside()
        self._free = self._find_free()
        self._levels = self._find_levels()
        self._numbers: dict[_Value, int] = {
            _Value(None, index): index for index in range(len(self._arguments))
        }

    def cut(self) -> Cut:
        returned = self._uses[-1]
        last = max((level for level in self._levels if level is not None), default=0)
        wanted = self._wanted(returned, last)
        steps: list[Part | Collective | Callback | Flow] = []
        for level in range(last + 1):
            outputs = [v for v in wanted if wanted[v] == level]
            if outputs:
                steps.append(self._part(level, outputs))
            steps += [
                self._between(index)
                for index in range(len(self._operations))
                if self._speaks[index] and self._levels[index] == level
            ]
        types = {number: self._type(value) for value, number in self._numbers.items()}
        return Cut(
            arguments=len(self._arguments),
            steps=tuple(steps),
            types=types,
            results=tuple(self._numbers[value] for value in returned),
        )

    def _used(self, operation: Any) -> list[_Value]:
        """The values of `main` that an operation uses, in it or in its regions, in order."""
        found: dict[_Value, None] = {}
        ordered: list[_Value] = []
        for inner in (operation, *inside(operation)):
            for operand in inner.operands:
                value = self._value(operand)
                if value is None:
                    continue
                found[value] = None
                if inner is operation:
                    ordered.append(value)
        return ordered if operation.name == "func.return" else list(found)

    def _value(self, value: Any) -> _Value | None:
        return self._known.get(value)

    def _refuse_inside(self) -> None:
        """Refuse what cannot be cut, at the user's line.

        Raises:
            UnsupportedOp: there is some.
        """
        for operation in self._operations:
            for inner in (operation, *inside(operation)):
                place = place_of_location(str(inner.location))
                if inner.name in _ELSEWHERE:
                    raise UnsupportedOp(
                        f"{self._name} {_ELSEWHERE[inner.name]}", where=place, hint="leave it out"
                    )

    def _find_free(self) -> list[bool]:
        """Which operations rest on no input and cost little."""
        free: list[bool] = []
        for operation, used in zip(self._operations, self._uses, strict=True):
            free.append(
                operation.name == _NUMBER
                or (
                    operation.name in _CHEAP
                    and all(
                        v.place in self._weights if v.operation is None else free[v.operation]
                        for v in used
                    )
                )
            )
        return free

    def _find_levels(self) -> list[int | None]:
        """The level at which each operation is made; None for what every part makes itself."""
        levels: list[int | None] = []

        def of(value: _Value) -> int:
            if value.operation is None:
                return 0
            level = levels[value.operation]
            if level is None:
                return 0
            return level + self._speaks[value.operation]

        called = -1  # the level of the host's code that was called last: it keeps the order
        for operation, used, free in zip(self._operations, self._uses, self._free, strict=True):
            level = max(map(of, used), default=0)
            if self._calls_host(operation):
                level = called = max(level, called + 1)
            levels.append(None if free else level)
        return levels

    def _calls_host(self, operation: Any) -> bool:
        """Whether it calls the host's code, or is a loop or a branch in which that is called."""
        from iree.compiler import ir

        target = target_of(ir, operation)
        return target == CALLBACK or (
            target == LOOP
            and any(
                self._calls_host(inner)
                for name in _ways_of(operation)
                for inner in inside(find_function(self._module, name))
            )
        )

    def _wanted(self, returned: Sequence[_Value], last: int) -> dict[_Value, int]:
        """The values that parts give to others, and which part gives them, in order."""
        found: dict[_Value, int] = {}

        def want(value: _Value, by: int) -> None:
            if value.operation is None:
                # Inputs are there; a weight is no value until a part has given it.
                if value.place in self._weights:
                    found.setdefault(value, by)
                return
            if self._speaks[value.operation]:
                return
            level = self._levels[value.operation]
            found.setdefault(value, by if level is None else level)

        for index in range(len(self._operations) - 1):
            level = self._levels[index]
            if level is None:
                continue
            for value in self._uses[index]:
                made = None if value.operation is None else self._levels[value.operation]
                if self._speaks[index] or (made is not None and made != level):
                    want(value, level)
        for value in returned:
            want(value, last)
        # A value that every part makes may be wanted early: the first that does gives it.
        return found

    def _number(self, value: _Value) -> int:
        # A weight that a part gives is another value than the argument.
        if value.operation is None and value.place in self._weights:
            return self._numbers.setdefault(_Value(-1, value.place), self._fresh())
        return self._numbers.setdefault(value, self._fresh())

    def _fresh(self) -> int:
        return max(self._numbers.values(), default=-1) + 1

    def _type(self, value: _Value) -> tuple[tuple[int, ...], str]:
        from iree.compiler import ir

        if value.operation is None or value.operation == -1:
            kind = self._arguments[value.place].type
        else:
            kind = self._operations[value.operation].results[value.place].type
        tensor = ir.RankedTensorType(kind)
        return tuple(tensor.shape), str(tensor.element_type)

    def _part(self, level: int, outputs: Sequence[_Value]) -> Part:
        """The operations of a level, in a copy of the program from which the others are taken."""
        from iree.compiler import ir

        copy = parse_stablehlo(self._text, self._module.context)
        main = find_function(copy, self._function)
        block = main.regions[0].blocks[0]
        operations = [op.operation for op in block.operations]
        needed: dict[_Value, None] = {}
        for index, used in enumerate(self._uses[:-1]):
            if self._levels[index] != level or self._speaks[index]:
                continue
            needed.update(dict.fromkeys(v for v in self._resting(used) if self._comes_in(v, level)))
        needed.update(dict.fromkeys(v for v in self._resting(outputs) if v.operation is None))
        inputs = sorted(needed, key=self._position)
        with main.location:
            arguments = [
                block.add_argument(_of(value, block, operations).type, main.location)
                for value in inputs
            ]
            for value, argument in zip(inputs, arguments, strict=True):
                _of(value, block, operations).replace_all_uses_with(argument)
            known = dict(zip(inputs, arguments, strict=True))
            with ir.InsertionPoint(operations[-1]):
                ir.Operation.create(
                    "func.return",
                    operands=[known.get(v) or _of(v, block, operations) for v in outputs],
                )
            operations[-1].erase()
            _erase_unused(block)
            numbered = self._take_number(main, block)
        for index in reversed(range(len(self._arguments))):
            block.erase_argument(index)
        kinds = [argument.type for argument in block.arguments]
        results = [v.type for v in list(block.operations)[-1].operation.operands]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))
        for op in list(copy.body.operations):
            if op.operation != main:
                op.operation.erase()
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        main.attributes["sym_visibility"] = ir.StringAttr.get("public")
        stream = io.BytesIO()
        copy.operation.write_bytecode(stream)
        taken = tuple(self._input_number(value) for value in inputs)
        return Part(
            module=stream.getvalue(),
            inputs=taken,
            outputs=tuple(self._number(value) for value in outputs),
            numbered=numbered,
        )

    def _resting(self, values: Iterable[_Value]) -> Iterator[_Value]:
        """Values, and the weights behind those that every part makes itself."""
        for value in values:
            yield value
            if value.operation is not None and self._levels[value.operation] is None:
                yield from self._resting(self._uses[value.operation])

    def _comes_in(self, value: _Value, level: int) -> bool:
        if value.operation is None:
            return True
        made = self._levels[value.operation]
        if made is None:
            return False
        return made != level or self._speaks[value.operation]

    def _position(self, value: _Value) -> tuple[int, int]:
        return (-1 if value.operation is None else value.operation, value.place)

    def _input_number(self, value: _Value) -> int:
        return value.place if value.operation is None else self._number(value)

    def _take_number(self, main: Any, block: Any) -> bool:
        """Let the device's number be an argument, where it is asked for."""
        asking = [op for op in inside(main) if op.name == _NUMBER]
        if not asking:
            return False
        argument = block.add_argument(asking[0].results[0].type, main.location)
        for operation in asking:
            operation.results[0].replace_all_uses_with(argument)
            operation.erase()
        return True

    def _between(self, index: int) -> Collective | Callback | Flow:
        from iree.compiler import ir

        operation = self._operations[index]
        if operation.name in _NAMES:
            return self._collective(index)
        is_callback = target_of(ir, operation) == CALLBACK
        return self._callback(index) if is_callback else self._flow(index)

    def _callback(self, index: int) -> Callback:
        from iree.compiler import ir

        operation = self._operations[index]
        made = [_Value(index, place) for place in range(len(operation.results))]
        number, every = ir.StringAttr(operation.attributes["backend_config"]).value.split()
        return Callback(
            number=int(number),
            every=every == "1",
            inputs=tuple(self._given(self._known[value]) for value in operation.operands),
            outputs=tuple(map(self._number, made)),
            arrays=tuple(map(self._type, made)),
        )

    def _collective(self, index: int) -> Collective:
        from iree.compiler import ir

        operation = self._operations[index]
        kind = _NAMES[operation.name]
        place = place_of_location(str(operation.location)) or ""
        if len(operation.results) != 1:
            raise self._unknown(kind, "of several arrays at once", place)
        attributes = operation.attributes
        pairs = kind == "collective_permute"
        groups = attributes["source_target_pairs" if pairs else "replica_groups"]
        shape = ir.RankedTensorType(groups.type).shape
        numbers = [int(number) for number in ir.DenseIntElementsAttr(groups)]
        if len(numbers) == 1 and shape[0] * shape[1] > 1:
            numbers *= shape[0] * shape[1]
        rows = [tuple(numbers[i * shape[1] : (i + 1) * shape[1]]) for i in range(shape[0])]
        axes = {
            "all_gather": ("all_gather_dim", ""),
            "reduce_scatter": ("scatter_dimension", ""),
            "all_to_all": ("split_dimension", "concat_dimension"),
        }.get(kind, ("", ""))
        axis, onto = (int(ir.IntegerAttr(attributes[n]).value) if n else 0 for n in axes)
        return Collective(
            kind=kind,
            input=self._given(self._uses[index][0]),
            output=self._number(_Value(index, 0)),
            # -1 fills up groups that are smaller than others.
            groups=tuple(tuple(n for n in row if n >= 0) for row in rows),
            operation=self._reduction(operation, kind, place) if operation.regions else "",
            axis=axis,
            onto=onto,
            where=place,
        )

    def _flow(self, index: int) -> Flow:
        """A loop or a branch, each of whose ways is cut as a program is."""
        from iree.compiler import ir

        operation = self._operations[index]
        given = [self._known[value] for value in operation.operands]
        return Flow(
            kind=kind_of(ir.StringAttr(operation.attributes["edgec.kind"]).value),
            inputs=tuple(self._given(value) for value in given),
            outputs=tuple(
                self._number(_Value(index, place)) for place in range(len(operation.results))
            ),
            cuts=tuple(
                _Cutter(self._text, self._module, self._name, frozenset(), name).cut()
                for name in _ways_of(operation)
            ),
            where=place_of_location(str(operation.location)) or "",
        )

    def _given(self, value: _Value) -> int:
        """The number of a value that a part, or the caller, has given."""
        is_weight = value.operation is None and value.place in self._weights
        return self._numbers[_Value(-1, value.place) if is_weight else value]

    def _reduction(self, operation: Any, kind: str, place: str) -> str:
        """The one operation that a reduction applies."""
        if not len(operation.regions):
            return ""
        inner = [op.operation.name for op in operation.regions[0].blocks[0].operations]
        short = str(inner[0]).removeprefix("stablehlo.")
        if len(inner) != 2 or short not in OPERATIONS:
            raise self._unknown(kind, f"by {', '.join(inner[:-1])}", place)
        return short

    def _unknown(self, kind: str, how: str, place: str) -> UnsupportedOp:
        return UnsupportedOp(
            f"{self._name} has a collective that edgec does not carry out: {kind} {how}",
            where=place or None,
            hint=f"reduce by one of {', '.join(OPERATIONS)}, an array at a time",
        )


def _speaks(operation: Any) -> bool:
    """Whether devices speak to each other in an operation: it stands between parts."""
    from iree.compiler import ir

    return operation.name in _NAMES or target_of(ir, operation) in (LOOP, CALLBACK)


def _ways_of(operation: Any) -> list[str]:
    """The functions that a loop or a branch goes through."""
    from iree.compiler import ir

    called = ir.ArrayAttr(operation.attributes["called_computations"])
    return [str(ir.FlatSymbolRefAttr(each).value) for each in called]


def _of(value: _Value, block: Any, operations: Sequence[Any]) -> Any:
    if value.operation is None:
        return block.arguments[value.place]
    return operations[value.operation].results[value.place]


def _erase_unused(block: Any) -> None:
    for op in reversed(list(block.operations)[:-1]):
        operation = op.operation
        if not any(True for result in operation.results for _ in result.uses):
            operation.erase()
