"""The function that fills its inputs up to the next size that there is a body for.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from iree.compiler import ir

from edgec.toolchain.batches.marks import Mark
from edgec.toolchain.batches.write import over, plus, size_along, times
from edgec.toolchain.buckets.filled import Filling
from edgec.toolchain.buckets.model import Model
from edgec.toolchain.buckets.rules import apply
from edgec.toolchain.buckets.sizes import Size
from edgec.toolchain.ir.functions import entry_block
from edgec.toolchain.ir.joining import called
from edgec.toolchain.ir.write import (
    binary,
    clamp,
    concatenate,
    count_up,
    create,
    dynamic_slice,
    dynamic_update,
    fill,
    tensor,
)

__all__ = ["write_main"]

_INDEX = 32


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
    examples = model.examples
    inputs = entry_block(model.function).arguments
    outputs = list(entry_block(model.function).operations)[-1].operation.operands
    none = [None] * len(inputs)
    roles = [
        _open(value.type, grown, mark)
        for value, grown, mark in zip(
            inputs, model.arguments, examples.arguments if examples else none, strict=True
        )
    ]
    none = [None] * len(outputs)
    grown_results = list(zip(model.results, examples.results if examples else none, strict=True))
    made = [
        _open(value.type, grown, mark)
        for value, (grown, mark) in zip(outputs, grown_results, strict=True)
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
        call = _Call(model=model, arguments=list(block.arguments), results=grown_results)
        carried = [fill(0, (), call.live.type.element_type)]
        carried += [
            call.empty(kind, grown, mark)
            for kind, (grown, mark) in zip(made, grown_results, strict=True)
        ]
        below = [0, *sizes]
        for (before, size), body in reversed([*zip(pairwise(below), bodies, strict=True)]):
            carried = call.at_most_once(body, size, before, sizes[-1], carried)
        ir.Operation.create("func.return", operands=carried[1:])


def _open(kind: Any, sizes: Sequence[Size], mark: Mark | None) -> Any:
    """A type that is open where it grows, and where it counts examples."""
    open_ = ir.ShapedType.get_dynamic_size()
    axes = [
        open_ if size.is_open or (mark is not None and mark.axis == axis) else size.more
        for axis, size in enumerate(sizes)
    ]
    return tensor(axes, kind.element_type)


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


class _Call:
    """What `main` does with its arguments."""

    def __init__(
        self,
        *,
        model: Model,
        arguments: Sequence[Any],
        results: Sequence[tuple[Sequence[Size], Mark | None]],
    ) -> None:
        self.model = model
        self.arguments = arguments
        self.results = results
        whole = Size(each=1, more=0)
        self.live = next(
            size_along(value, axis)
            for value, sizes in zip(arguments, model.arguments, strict=True)
            for axis, size in enumerate(sizes)
            if size == whole
        )
        self.index = self.live.type.element_type
        self.count: Any = None
        if model.examples is not None:
            self.count = next(
                size_along(value, mark.axis)
                for value, mark in zip(arguments, model.examples.arguments, strict=True)
                if mark is not None
            )

    def shape(self, sizes: Sequence[Size], mark: Mark | None) -> Any:
        """The sizes of an array of this call as one tensor."""
        parts = []
        for axis, size in enumerate(sizes):
            if mark is not None and mark.axis == axis:
                number = times(self.count, mark.each)
            elif size.is_open:
                whole = over(plus(self.live, size.shift), size.over)
                number = plus(times(whole, size.each), size.more)
            else:
                number = fill(size.more, (), self.index)
            parts.append(number)
        return _vector(parts)

    def empty(self, kind: Any, sizes: Sequence[Size], mark: Mark | None) -> Any:
        """An array of zeros."""
        if kind.has_static_shape:
            return fill(0, list(kind.shape), kind.element_type)
        return create(
            "stablehlo.dynamic_broadcast_in_dim",
            kind,
            [fill(0, (), kind.element_type), self.shape(sizes, mark)],
            {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])},
        )

    def at_most_once(
        self, body: Any, size: int, before: int, most: int, carried: Sequence[Any]
    ) -> list[Any]:
        """A loop that runs a body if the size is its own: the host counts it, and decides so.

        One turn, or one for each example. Loops within loops that fill arrays in place come out
        wrong in iree-compile 3.13, so there is one for each body.
        """
        if self.count is None:
            return count_up(
                carried,
                plus(self.live, -before),
                most,
                lambda _, wholes: self._turn(body, size, None, wholes),
            )
        # 1 where before < live <= size, by numbers that the host works out.
        above, upto = (
            clamp(fill(0, (), self.index), value, fill(1, (), self.index))
            for value in (plus(self.live, -before), plus(_negative(self.live), size + 1))
        )
        end = binary("multiply", self.count, binary("multiply", above, upto))
        first = fill(0, (), self.index)
        return count_up(
            [first, *carried[1:]],
            end,
            1,
            lambda first, wholes: self._turn(body, size, first, wholes),
        )

    def _turn(self, body: Any, size: int, first: Any | None, wholes: Sequence[Any]) -> list[Any]:
        """A call of a body, for one example where there are several."""
        taken = [
            self._filled_up(self._example(value, sizes, mark, first), sizes, size)
            for value, sizes, mark in zip(
                self.arguments, self.model.arguments, self._marks(), strict=True
            )
        ]
        return [
            self._cut(value, whole, sizes, mark, first)
            for value, whole, (sizes, mark) in zip(
                called(body, [*taken, self.live]), wholes, self.results, strict=True
            )
        ]

    def _marks(self) -> Sequence[Mark | None]:
        examples = self.model.examples
        return [None] * len(self.arguments) if examples is None else examples.arguments

    def _example(
        self, value: Any, sizes: Sequence[Size], mark: Mark | None, first: Any | None
    ) -> Any:
        """The part of an argument that belongs to one example."""
        if mark is None or first is None:
            return value
        fixed = [Size(each=0, more=mark.each) if a == mark.axis else s for a, s in enumerate(sizes)]
        starts = self._starts(len(sizes), mark, first)
        if not any(size.is_open for size in fixed):
            return dynamic_slice(value, starts, [size.more for size in fixed])
        low = _vector(starts)
        high = binary("add", low, self.shape(fixed, None))
        kind = _open(value.type, fixed, None)
        step = fill(1, (len(sizes),), self.index)
        return create("stablehlo.real_dynamic_slice", kind, [value, low, high, step])

    def _filled_up(self, value: Any, sizes: Sequence[Size], size: int) -> Any:
        """An input with zeros behind it."""
        if not any(each.is_open for each in sizes):
            return value
        shape = [
            each.of(size) if each.is_open else known
            for each, known in zip(sizes, value.type.shape, strict=True)
        ]
        zeros = fill(0, shape, value.type.element_type)
        return dynamic_update(zeros, value, [fill(0, (), self.index) for _ in sizes])

    def _starts(self, rank: int, mark: Mark | None, first: Any | None) -> list[Any]:
        """Where an example begins."""
        nothing = fill(0, (), self.index)
        if mark is None or first is None:
            return [nothing] * rank
        return [times(first, mark.each) if a == mark.axis else nothing for a in range(rank)]

    def _cut(
        self,
        value: Any,
        whole: Any,
        sizes: Sequence[Size],
        mark: Mark | None,
        first: Any | None,
    ) -> Any:
        """A result without its filling, written into the array for it."""
        if value.type == whole.type and whole.type.has_static_shape and first is None:
            return value
        rank = len(sizes)
        part = value
        if any(size.is_open for size in sizes):
            start, step = (fill(number, (rank,), self.index) for number in (0, 1))
            bounds = [value, start, self.shape(sizes, None), step]
            kind = _open(value.type, sizes, None)
            part = create("stablehlo.real_dynamic_slice", kind, bounds)
        return dynamic_update(whole, part, self._starts(rank, mark, first))


def _vector(scalars: Sequence[Any]) -> Any:
    """Scalars as one tensor."""
    kind = scalars[0].type.element_type
    parts = [create("stablehlo.reshape", tensor((1,), kind), [each]) for each in scalars]
    return parts[0] if len(parts) == 1 else concatenate(parts, 0)


def _negative(value: Any) -> Any:
    return create("stablehlo.negate", value.type, [value])
