"""The function that fills its inputs up to the next size that there is a body for.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from iree.compiler import ir

from edgec.toolchain.batches.write import plus, times
from edgec.toolchain.buckets.filled import Filling
from edgec.toolchain.buckets.rules import apply
from edgec.toolchain.buckets.sizes import Size, Two
from edgec.toolchain.ir.functions import entry_block, find_function
from edgec.toolchain.ir.write import concatenate, create, dynamic_update, fill, tensor
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

__all__ = ["Model", "main_of", "write_main"]

_INDEX = 32


def main_of(module: Any) -> Any:
    """The function `main` of an `ir.Module`, in which all calls are inlined."""
    InlineCalls().run(module)
    return find_function(module, "main")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A program made for two sizes.

    Attributes:
        function, twin: its `main` for the two, without calls.
        two: the sizes, the largest first.
        least: the least size that it gets.
    """

    function: Any
    twin: Any
    two: Two
    least: int

    @property
    def arguments(self) -> list[tuple[Size, ...]]:
        """How each argument grows."""
        blocks = [entry_block(each).arguments for each in (self.function, self.twin)]
        return [self.two.shape_of(*both) for both in zip(*blocks, strict=True)]

    def kinds(self, size: int) -> list[Any]:
        """The types of its arguments for a size."""
        return [
            _kind(value.type, sizes, size)
            for value, sizes in zip(
                entry_block(self.function).arguments, self.arguments, strict=True
            )
        ]


def write_main(module: Any, model: Model, sizes: Sequence[int]) -> None:
    """Add the public function `main` to `module`, and one function for each size.

    Args:
        module: an `ir.Module` without them.
        model: what is computed.
        sizes: those that there are to be bodies for, from the least to the largest.

    Raises:
        NotFilled: an operation of it does not go.
    """
    bodies = [_body(module, model, size) for size in sizes]
    results = [_results(*both, model.two) for both in zip(*_returned(model), strict=True)]
    made = [
        _open(value.type, sizes_)
        for value, sizes_ in zip(_returned(model)[0], results, strict=True)
    ]
    block = entry_block(model.function)
    roles = [
        _open(value.type, grown)
        for value, grown in zip(block.arguments, model.arguments, strict=True)
    ]
    with ir.InsertionPoint(module.body):
        main = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get("main"),
                "sym_visibility": ir.StringAttr.get("public"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(roles, made)),
            },
            regions=1,
        )
    block = main.regions[0].blocks.append(*roles)
    with ir.InsertionPoint(block):
        live = _live(block.arguments, model)
        carried = [fill(0, (), live.type.element_type)]
        carried += [_empty(kind, grown, live) for kind, grown in zip(made, results, strict=True)]
        below = [0, *sizes]
        for (before, size), body in reversed([*zip(pairwise(below), bodies, strict=True)]):
            once = _Once(
                model=model, size=size, most=sizes[-1], before=before, body=body, results=results
            )
            carried = once.write(list(block.arguments), carried, live)
        ir.Operation.create("func.return", operands=carried[1:])


def _returned(model: Model) -> tuple[list[Any], list[Any]]:
    ends = [
        list(list(entry_block(each).operations)[-1].operation.operands)
        for each in (model.function, model.twin)
    ]
    return ends[0], ends[1]


def _results(here: Any, there: Any, two: Two) -> tuple[Size, ...]:
    return two.shape_of(here, there)


def _kind(kind: Any, sizes: Sequence[Size], size: int) -> Any:
    return tensor([each.of(size) for each in sizes], kind.element_type)


def _open(kind: Any, sizes: Sequence[Size]) -> Any:
    """A type that is open where it grows."""
    open_ = ir.ShapedType.get_dynamic_size()
    return tensor([open_ if size.is_open else size.more for size in sizes], kind.element_type)


def _body(module: Any, model: Model, size: int) -> Any:
    """The program for a size, with how much of it is live as one argument more."""
    index = tensor((), ir.IntegerType.get_signless(_INDEX))
    kinds = [*model.kinds(size), index]
    with ir.InsertionPoint(module.body):
        function = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(f"up_to_{size}"),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
            },
            regions=1,
        )
    block = function.regions[0].blocks.append(*kinds)
    with ir.InsertionPoint(block):
        *arguments, live = block.arguments
        filling = Filling(two=model.two, size=size, least=model.least, live=live, rules=apply)
        results = filling.write(model.function, model.twin, arguments)
        ir.Operation.create("func.return", operands=results)
    whole = ir.FunctionType.get(kinds, [value.type for value in results])
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    return function


def _live(arguments: Sequence[Any], model: Model) -> Any:
    """The open size of a call, a scalar."""
    value, axis = next(
        (value, axis)
        for value, sizes in zip(arguments, model.arguments, strict=True)
        for axis, size in enumerate(sizes)
        if size == Size(each=1, more=0)
    )
    return create(
        "stablehlo.get_dimension_size",
        tensor((), ir.IntegerType.get_signless(_INDEX)),
        [value],
        {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)},
    )


def _shape(sizes: Sequence[Size], live: Any) -> Any:
    """The sizes of a call as one tensor."""
    kind = live.type.element_type
    parts = [
        create(
            "stablehlo.reshape",
            tensor((1,), kind),
            [
                plus(times(live, size.each), size.more)
                if size.is_open
                else fill(size.more, (), kind)
            ],
        )
        for size in sizes
    ]
    return parts[0] if len(parts) == 1 else concatenate(parts, 0)


def _empty(kind: Any, sizes: Sequence[Size], live: Any) -> Any:
    """A result before it is written."""
    nothing = fill(0, (), kind.element_type)
    attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
    if kind.has_static_shape:
        return fill(0, list(kind.shape), kind.element_type)
    shape = _shape(sizes, live)
    return create("stablehlo.dynamic_broadcast_in_dim", kind, [nothing, shape], attributes)


@dataclass(frozen=True, kw_only=True)
class _Once:
    """A loop of one turn at most, which runs a body: the host counts it, and decides so."""

    model: Model
    size: int
    most: int
    before: int
    body: Any
    results: Sequence[tuple[Size, ...]]

    def write(self, arguments: Sequence[Any], carried: Sequence[Any], live: Any) -> list[Any]:
        kinds = [value.type for value in carried]
        end = plus(live, -self.before)
        op = ir.Operation.create(
            "stablehlo.while", results=kinds, operands=list(carried), regions=2
        )
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
            wanted = zip(arguments, self.model.kinds(self.size), strict=True)
            taken = [*(_filled_up(value, kind) for value, kind in wanted), live]
            function = ir.TypeAttr(self.body.attributes["function_type"]).value
            call = ir.Operation.create(
                "func.call",
                results=list(ir.FunctionType(function).results),
                operands=taken,
                attributes={
                    "callee": ir.FlatSymbolRefAttr.get(
                        ir.StringAttr(self.body.attributes["sym_name"]).value
                    )
                },
            )
            cut = [
                _cut(value, whole, sizes, live)
                for value, whole, sizes in zip(
                    call.results, list(block.arguments)[1:], self.results, strict=True
                )
            ]
            most = self.most
            ir.Operation.create("stablehlo.return", operands=[plus(block.arguments[0], most), *cut])
        return list(op.results)


def _filled_up(value: Any, kind: Any) -> Any:
    """An input with zeros behind it."""
    if value.type == kind:
        return value
    starts = [fill(0, (), ir.IntegerType.get_signless(_INDEX)) for _ in kind.shape]
    return dynamic_update(fill(0, list(kind.shape), kind.element_type), value, starts)


def _cut(value: Any, whole: Any, sizes: Sequence[Size], live: Any) -> Any:
    """A result without its filling, written into the array for it."""
    if value.type == whole.type:
        return value
    index = live.type.element_type
    rank = len(sizes)
    shape = _shape(sizes, live)
    start, step = (fill(number, (rank,), index) for number in (0, 1))
    part = create("stablehlo.real_dynamic_slice", whole.type, [value, start, shape, step])
    return dynamic_update(whole, part, [fill(0, (), index) for _ in sizes])
