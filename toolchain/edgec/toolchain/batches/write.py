"""The function that goes through a batch: some examples at a time, then one at a time.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.batches.marks import Mark
from edgec.toolchain.ir.joining import called
from edgec.toolchain.ir.write import (
    concatenate,
    count_up,
    create,
    dynamic_slice,
    dynamic_update,
    fill,
    tensor,
)

__all__ = ["Body", "Through", "over", "plus", "size_along", "times", "write_main"]


@dataclass(frozen=True, kw_only=True)
class Body:
    """A function for a fixed number of examples.

    Attributes:
        name: its symbol.
        examples: how many.
        function: the `func.func`.
        arguments: for each of its arguments, which of `main`'s it is.
    """

    name: str
    examples: int
    function: Any
    arguments: Sequence[int]

    @property
    def kinds(self) -> tuple[list[Any], list[Any]]:
        """The types of its arguments and results."""
        kind = ir.FunctionType(ir.TypeAttr(self.function.attributes["function_type"]).value)
        return list(kind.inputs), list(kind.results)


@dataclass(frozen=True, kw_only=True)
class Through:
    """What `main` is.

    Attributes:
        kinds: the types of its arguments, dynamic where they count examples.
        marks: which axis of each argument counts them.
        results: the same of its results.
    """

    kinds: Sequence[Any]
    marks: Sequence[Mark | None]
    results: Sequence[Mark]


def write_main(module: Any, through: Through, bodies: Sequence[Body]) -> None:
    """Add the public function `main` to `module`: a loop for each body, the largest first."""
    _, kinds = bodies[0].kinds
    made = [
        tensor(
            [
                ir.ShapedType.get_dynamic_size() if axis == mark.axis else size
                for axis, size in enumerate(kind.shape)
            ],
            kind.element_type,
        )
        for kind, mark in zip(kinds, through.results, strict=True)
    ]
    with ir.InsertionPoint(module.body):
        main = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get("main"),
                "sym_visibility": ir.StringAttr.get("public"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(through.kinds), made)),
            },
            regions=1,
        )
    block = main.regions[0].blocks.append(*through.kinds)
    with ir.InsertionPoint(block):
        count = _count(block.arguments, through.marks)
        index = ir.IntegerType.get_signless(32)
        carried = [fill(0, (), index)]
        for kind, old, mark in zip(made, kinds, through.results, strict=True):
            carried.append(_empty(kind, old, mark, count))
        for body in bodies:
            carried = _loop(body, through, list(block.arguments), carried, count)
        ir.Operation.create("func.return", operands=carried[1:])


def _count(arguments: Sequence[Any], marks: Sequence[Mark | None]) -> Any:
    """The number of examples, a scalar."""
    value, mark = next((v, m) for v, m in zip(arguments, marks, strict=True) if m is not None)
    return size_along(value, mark.axis)


def size_along(value: Any, axis: int) -> Any:
    """How large a value is along an axis, a scalar i32."""
    return create(
        "stablehlo.get_dimension_size",
        tensor((), ir.IntegerType.get_signless(32)),
        [value],
        {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)},
    )


def times(value: Any, number: int) -> Any:
    """A scalar times a number."""
    if number == 1:
        return value
    return create(
        "stablehlo.multiply", value.type, [value, fill(number, (), value.type.element_type)]
    )


def over(value: Any, number: int) -> Any:
    """A scalar that is not negative divided by a number, without the rest."""
    other = fill(number, (), value.type.element_type)
    return create("stablehlo.divide", value.type, [value, other]) if number != 1 else value


def plus(value: Any, number: int) -> Any:
    """A scalar and a number."""
    other = fill(number, (), value.type.element_type)
    return create("stablehlo.add", value.type, [value, other]) if number else value


def _empty(kind: Any, old: Any, mark: Mark, count: Any) -> Any:
    """A result before any example is written into it."""
    index = count.type.element_type
    sizes = [
        create("stablehlo.reshape", tensor((1,), index), [times(count, mark.each)])
        if axis == mark.axis
        else fill(size, (1,), index)
        for axis, size in enumerate(old.shape)
    ]
    shape = sizes[0] if len(sizes) == 1 else concatenate(sizes, 0)
    nothing = fill(0, (), kind.element_type)
    return create(
        "stablehlo.dynamic_broadcast_in_dim",
        kind,
        [nothing, shape],
        {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])},
    )


def _loop(
    body: Body, through: Through, arguments: Sequence[Any], carried: Sequence[Any], count: Any
) -> list[Any]:
    """Calls of a body as long as there are as many examples left as it takes."""

    def turn(first: Any, results: Sequence[Any]) -> list[Any]:
        taken = [
            _part(arguments[number], kind, through.marks[number], first)
            for number, kind in zip(body.arguments, body.kinds[0], strict=True)
        ]
        return [
            dynamic_update(whole, part, _starts(len(part.type.shape), mark, first))
            for whole, part, mark in zip(
                results, called(body.function, taken), through.results, strict=True
            )
        ]

    return count_up(carried, plus(count, 1 - body.examples), body.examples, turn)


def _part(value: Any, kind: Any, mark: Mark | None, first: Any) -> Any:
    """What a body takes of an argument."""
    if mark is None:
        return value
    return dynamic_slice(value, _starts(len(kind.shape), mark, first), list(kind.shape))


def _starts(rank: int, mark: Mark, first: Any) -> list[Any]:
    return [
        times(first, mark.each) if axis == mark.axis else fill(0, (), first.type.element_type)
        for axis in range(rank)
    ]
