"""Sizes of dimensions while a lowered PyTorch module is rewritten: numbers, or values on i32.

A size is followed back through the operations that pass it on, as far as the arguments of the
function, so that equal sizes are mostly one value and shapes stay small.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["ARITHMETIC", "Size", "Sizes", "broadcast", "make"]

Size = Any
"""An int, or an MLIR value of type `tensor<i32>` (`tensor<i1>` for the result of a comparison)."""

_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
"""By the number of an `arith.cmpi`; sizes are never negative, so signs do not matter."""

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
ARITHMETIC: Mapping[str, tuple[Callable[[int, int], int], int | None]] = {
    "add": (lambda a, b: a + b, 0),
    "subtract": (lambda a, b: a - b, 0),
    "multiply": (lambda a, b: a * b, 1),
    "divide": (lambda a, b: a // b, 1),
    "remainder": (lambda a, b: a % b, None),
    "maximum": (max, None),
    "minimum": (min, None),
}
"""StableHLO's name of an operation, to what it does and the right operand that changes nothing."""

_SAME_SHAPE = re.compile(
    r"stablehlo\.(abs|add|and|atan2|cbrt|ceil|compare|complex|convert|cosine|divide|exponential"
    r"|exponential_minus_one|floor|imag|is_finite|log|log_plus_one|logistic|maximum|minimum"
    r"|multiply|negate|not|or|power|real|remainder|reverse|round_nearest_\w+|rsqrt|shift_\w+|sign"
    r"|sine|sqrt|subtract|tan|tanh|xor)|chlo\.(erfc?|tan|sinh|cosh|asinh?|acosh?|atanh?)"
)


class Sizes:
    """The sizes of every value in one function, and how to compute with them."""

    def __init__(self, arguments: Sequence[tuple[Any, Sequence[int | str]]]) -> None:
        """`arguments`: each argument of the function, and its shape with symbols by name."""
        self._dims: dict[Any, list[Size]] = {}
        self._asked: dict[tuple[Any, int], Any] = {}
        self._first: dict[tuple[Any, int], tuple[Any, int]] = {}
        seen: dict[str, tuple[Any, int]] = {}
        for argument, shape in arguments:
            for axis, size in enumerate(shape):
                if isinstance(size, str):
                    self._first[argument, axis] = seen.setdefault(size, (argument, axis))

    def of(self, before: Any, value: Any, axis: int) -> Size:
        """The size of one dimension of a value; asked for `before` an operation if need be."""
        from torch_mlir import ir

        if not value.type.is_dynamic_dim(axis):
            return int(value.type.shape[axis])
        if value in self._dims:
            return self._dims[value][axis]
        key = self._first.get((value, axis), (value, axis))
        if key not in self._asked:
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), key[1])
            self._asked[key] = make(
                _start(key[0], before),
                "stablehlo.get_dimension_size",
                scalar(),
                [key[0]],
                {"dimension": number},
            )
        return self._asked[key]

    def shape(self, before: Any, value: Any) -> list[Size]:
        """The sizes of all dimensions of a value."""
        return [self.of(before, value, axis) for axis in range(value.type.rank)]

    def know(self, value: Any, sizes: Sequence[Size]) -> None:
        """Note the sizes of a value that is made to them."""
        self._dims[value] = list(sizes)

    def learn(self, operation: Any) -> None:
        """Note the sizes of an operation's result where they follow from its operands'."""
        if len(operation.results) != 1 or not _is_dynamic(operation.results[0].type):
            return
        sizes = self._inherited(operation)
        if sizes is not None:
            self._dims[operation.results[0]] = sizes

    def _inherited(self, operation: Any) -> list[Size] | None:
        name, operands = operation.name, operation.operands
        get = functools.partial(self.shape, operation)
        if _SAME_SHAPE.fullmatch(name):
            return get(operands[0])
        if name in ("stablehlo.select", "stablehlo.clamp"):
            return get(operands[1])
        if name == "stablehlo.transpose":
            sizes = get(operands[0])
            return [sizes[axis] for axis in operation.attributes["permutation"]]
        if name == "stablehlo.reduce" and len(operands) == 2:
            gone = set(operation.attributes["dimensions"])
            return [size for axis, size in enumerate(get(operands[0])) if axis not in gone]
        if name == "stablehlo.concatenate":
            return self._concatenated(operation)
        if name == "stablehlo.dot_general":
            return self._product(operation)
        return None

    def _concatenated(self, operation: Any) -> list[Size]:
        from torch_mlir import ir

        axis = ir.IntegerAttr(operation.attributes["dimension"]).value
        shapes = [self.shape(operation, value) for value in operation.operands]
        add = functools.partial(self.compute, operation, "add")
        return [
            functools.reduce(add, [s[axis] for s in shapes]) if at == axis else size
            for at, size in enumerate(shapes[0])
        ]

    def _product(self, operation: Any) -> list[Size]:
        text = str(operation.attributes["dot_dimension_numbers"])
        axes = {
            name: [int(number) for number in re.findall(r"\d+", numbers)]
            for name, numbers in re.findall(r"(\w+)_dimensions = \[([\d, ]*)\]", text)
        }
        left = self.shape(operation, operation.operands[0])
        right = self.shape(operation, operation.operands[1])
        batch = axes.get("lhs_batching", [])
        used = {*batch, *axes.get("lhs_contracting", [])}
        other = {*axes.get("rhs_batching", []), *axes.get("rhs_contracting", [])}
        return [
            *(left[axis] for axis in batch),
            *(size for axis, size in enumerate(left) if axis not in used),
            *(size for axis, size in enumerate(right) if axis not in other),
        ]

    def compute(self, before: Any, name: str, left: Size, right: Size) -> Size:
        """`left name right`, as a number where both are."""
        fold, neutral = ARITHMETIC[name]
        if isinstance(left, int) and isinstance(right, int):
            return fold(left, right)
        if isinstance(right, int) and right == neutral:
            return left
        if name in ("add", "multiply") and isinstance(left, int) and left == neutral:
            return right
        operands = [self.tensor(before, left), self.tensor(before, right)]
        return make(before, f"stablehlo.{name}", scalar(), operands)

    def compare(self, before: Any, predicate: int, left: Size, right: Size) -> Size:
        """The result of an `arith.cmpi` with this number."""
        from torch_mlir import ir

        direction = _PREDICATES[predicate]
        if isinstance(left, int) and isinstance(right, int):
            return int(_COMPARE[direction](left, right))
        return make(
            before,
            "stablehlo.compare",
            ir.RankedTensorType.get([], ir.IntegerType.get_signless(1)),
            [self.tensor(before, left), self.tensor(before, right)],
            {
                "comparison_direction": ir.Attribute.parse(
                    f"#stablehlo<comparison_direction {direction}>"
                )
            },
        )

    def select(self, before: Any, choice: Size, yes: Size, no: Size) -> Size:
        """`yes` where `choice` holds, else `no`."""
        if isinstance(choice, int):
            return yes if choice else no
        values = [choice, self.tensor(before, yes), self.tensor(before, no)]
        return make(before, "stablehlo.select", scalar(), values)

    def tensor(self, before: Any, size: Size) -> Any:
        """A size as a value of type `tensor<i32>`."""
        from torch_mlir import ir

        if not isinstance(size, int):
            return size
        element = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), size)
        splat = ir.DenseElementsAttr.get_splat(scalar(), element)
        return make(before, "stablehlo.constant", scalar(), [], {"value": splat})

    def vector(self, before: Any, sizes: Sequence[Size], kind: Any) -> Any:
        """Sizes as one tensor of type `kind`, of i32 where that is of index."""
        import numpy as np
        from torch_mlir import ir

        i32 = ir.IntegerType.get_signless(32)
        is_integer = isinstance(kind.element_type, ir.IntegerType)
        wanted = ir.RankedTensorType.get(list(kind.shape), kind.element_type if is_integer else i32)
        if all(isinstance(size, int) for size in sizes):
            width = np.int64 if wanted.element_type.width == 64 else np.int32
            numbers = np.array(sizes, dtype=width).reshape(kind.shape)
            value = ir.DenseElementsAttr.get(numbers, type=wanted)
            return make(before, "stablehlo.constant", wanted, [], {"value": value})
        if not kind.shape:
            whole = self.tensor(before, sizes[0])
        else:
            one = ir.RankedTensorType.get([1], i32)
            parts = [
                make(before, "stablehlo.reshape", one, [self.tensor(before, size)])
                for size in sizes
            ]
            whole = parts[0]
            if len(parts) > 1:
                axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
                all_of_them = ir.RankedTensorType.get(list(kind.shape), i32)
                whole = make(
                    before, "stablehlo.concatenate", all_of_them, parts, {"dimension": axis}
                )
        if whole.type == wanted:
            return whole
        return make(before, "stablehlo.convert", wanted, [whole])


def broadcast(left: Sequence[Size], right: Sequence[Size]) -> list[Size]:
    """The shape that both extend to; torch.export has seen to it that they fit."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    padded: list[Size] = [1] * (len(longer) - len(shorter)) + list(shorter)
    return [_fitting(one, other) for one, other in zip(longer, padded, strict=True)]


def scalar() -> Any:
    """The type `tensor<i32>`."""
    from torch_mlir import ir

    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))


def make(
    before: Any,
    name: str,
    kind: Any,
    operands: Sequence[Any],
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    """The one result of a new operation `before` another, at its place in the user's source."""
    from torch_mlir import ir

    with ir.InsertionPoint(before), before.location:
        made = ir.Operation.create(
            name, results=[kind], operands=list(operands), attributes=dict(attributes or {})
        )
    return made.results[0]


def _fitting(one: Size, other: Size) -> Size:
    if isinstance(one, int):
        return other if one == 1 else one
    return other if isinstance(other, int) and other != 1 else one


def _is_dynamic(kind: Any) -> bool:
    from torch_mlir import ir

    return isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape


def _start(value: Any, before: Any) -> Any:
    """The first operation of the function for one of its arguments, else `before`."""
    from torch_mlir import ir

    if isinstance(value.owner, ir.Block):
        return value.owner.operations[0].operation
    return before
