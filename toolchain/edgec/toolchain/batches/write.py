"""The function that goes through a batch: some examples at a time, then one at a time.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.batches.marks import Mark
from edgec.toolchain.ir.write import concatenate, create, fill, tensor

__all__ = ["Body", "Through", "plus", "times", "write_main"]


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
    return create(
        "stablehlo.get_dimension_size",
        tensor((), ir.IntegerType.get_signless(32)),
        [value],
        {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), mark.axis)},
    )


def times(value: Any, number: int) -> Any:
    """A scalar times a number."""
    if number == 1:
        return value
    return create(
        "stablehlo.multiply", value.type, [value, fill(number, (), value.type.element_type)]
    )


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
    kinds = [value.type for value in carried]
    # Worked out here: iree-compile 3.13 refuses a loop whose test adds ("streamable op expected to
    # be in an execution region").
    end = plus(count, 1 - body.examples)
    op = ir.Operation.create("stablehlo.while", results=kinds, operands=list(carried), regions=2)
    test = op.regions[0].blocks.append(*kinds)
    with ir.InsertionPoint(test):
        direction = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        more = create(
            "stablehlo.compare",
            tensor((), ir.IntegerType.get_signless(1)),
            [test.arguments[0], end],
            {"comparison_direction": direction},
        )
        ir.Operation.create("stablehlo.return", operands=[more])
    block = op.regions[1].blocks.append(*kinds)
    with ir.InsertionPoint(block):
        first, *results = block.arguments
        inputs, outputs = body.kinds
        taken = [
            _part(arguments[number], kind, through.marks[number], first)
            for number, kind in zip(body.arguments, inputs, strict=True)
        ]
        call = ir.Operation.create(
            "func.call",
            results=outputs,
            operands=taken,
            attributes={"callee": ir.FlatSymbolRefAttr.get(body.name)},
        )
        written = [
            create(
                "stablehlo.dynamic_update_slice",
                whole.type,
                [whole, part, *_starts(len(part.type.shape), mark, first)],
            )
            for whole, part, mark in zip(results, call.results, through.results, strict=True)
        ]
        ir.Operation.create("stablehlo.return", operands=[plus(first, body.examples), *written])
    return list(op.results)


def _part(value: Any, kind: Any, mark: Mark | None, first: Any) -> Any:
    """What a body takes of an argument."""
    if mark is None:
        return value
    sizes = ir.DenseI64ArrayAttr.get(list(kind.shape))
    starts = _starts(len(kind.shape), mark, first)
    return create("stablehlo.dynamic_slice", kind, [value, *starts], {"slice_sizes": sizes})


def _starts(rank: int, mark: Mark, first: Any) -> list[Any]:
    return [
        times(first, mark.each) if axis == mark.axis else fill(0, (), first.type.element_type)
        for axis in range(rank)
    ]
