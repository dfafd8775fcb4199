"""What torch-mlir's lowering leaves in other dialects (shape, tensor, arith), to StableHLO.

With dynamic dimensions, torch-mlir computes sizes on the side: `shape.shape_of`, `tensor.dim`,
`arith.muli` on `index`, broadcasts guarded by `shape.assuming`. Here each size becomes a number
or a `tensor<i32>` that StableHLO itself can make (`get_dimension_size` and arithmetic), and the
guards, which torch.export has decided already, fall away.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from edgec.exporters.places import describe, first_users
from edgec.runtime.errors import UnsupportedOp

__all__ = ["only_stablehlo", "place_of"]

Size = Any
"""An int, or an MLIR value of type `tensor<i32>` (`tensor<i1>` for the result of a comparison)."""

_PREDICATES = {0: "EQ", 1: "NE", 2: "LT", 3: "LE", 4: "GT", 5: "GE", 6: "LT", 7: "LE", 8: "GT"}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
# Sizes are never negative, so the signed and unsigned forms are the same.
_ARITHMETIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "arith.addi": ("stablehlo.add", lambda a, b: a + b),
    "arith.subi": ("stablehlo.subtract", lambda a, b: a - b),
    "arith.muli": ("stablehlo.multiply", lambda a, b: a * b),
    "arith.divsi": ("stablehlo.divide", lambda a, b: int(a / b)),
    "arith.divui": ("stablehlo.divide", lambda a, b: a // b),
    "arith.floordivsi": ("stablehlo.divide", lambda a, b: a // b),
    "arith.remsi": ("stablehlo.remainder", lambda a, b: a % b),
    "arith.remui": ("stablehlo.remainder", lambda a, b: a % b),
    "arith.maxsi": ("stablehlo.maximum", max),
    "arith.maxui": ("stablehlo.maximum", max),
    "arith.minsi": ("stablehlo.minimum", min),
    "arith.minui": ("stablehlo.minimum", min),
}
_CASTS = {"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci"}
_GUARDS = {"shape.cstr_broadcastable", "shape.cstr_eq", "shape.cstr_require", "shape.const_witness"}


def only_stablehlo(module: Any) -> None:
    """Rewrite a `torch_mlir.ir.Module` in place.

    Raises:
        UnsupportedOp: an operation of another dialect is left that has no such form.
    """
    from torch_mlir import ir

    with ir.Location.unknown(module.context):
        for function in module.body.operations:
            _Rewriter().block(function.operation.regions[0].blocks[0])


def place_of(location: Any) -> str | None:
    """The user's line in an MLIR location: the innermost one outside of libraries."""
    found = re.findall(r'"([^"]+)":(\d+):\d+', str(location))
    frames = [(file, int(line), "") for file, line in found]
    return first_users(frames) or (describe(*frames[0]) if frames else None)


class _Rewriter:
    """One function: the sizes known so far, and the operations that are done with."""

    def __init__(self) -> None:
        self._sizes: dict[Any, Size] = {}
        self._vectors: dict[Any, list[Size]] = {}
        self._asked: dict[tuple[Any, int], Size] = {}
        self._done: list[Any] = []

    def block(self, block: Any) -> None:
        """Rewrite the operations of a function's body."""
        for item in list(block.operations):
            self._one(item.operation)
        for operation in reversed(self._done):
            operation.erase()

    def _inline(self, assuming: Any) -> None:
        """Take the guarded operations out of their region."""
        body = assuming.regions[0].blocks[0]
        inner = [item.operation for item in body.operations]
        for operation in inner[:-1]:
            operation.move_before(assuming)
        for result, value in zip(assuming.results, inner[-1].operands, strict=True):
            result.replace_all_uses_with(value)
        self._done.append(assuming)
        for operation in inner[:-1]:
            self._one(operation)

    def _one(self, operation: Any) -> None:
        if operation.name == "shape.assuming":
            self._inline(operation)
        elif operation.name.startswith(("stablehlo.", "chlo.", "func.")):
            self._materialise_operands(operation)
        elif self._understand(operation):
            self._done.append(operation)
        else:
            raise UnsupportedOp(
                f"the operation {operation.name} is left after lowering and is no StableHLO",
                where=place_of(operation.location),
                hint="leave the dimensions of that line static",
            )

    def _understand(self, operation: Any) -> bool:
        """Learn what a size operation gives; False for an operation of another kind."""
        name, operands = operation.name, list(operation.operands)
        if name in _GUARDS:
            return True
        if name == "arith.constant":
            self._constant(operation)
            return True
        if name == "shape.const_shape":
            self._vectors[operation.results[0]] = [int(v) for v in operation.attributes["shape"]]
            return True
        if name == "shape.shape_of":
            rank = len(operands[0].type.shape)
            sizes = [self._size_of(operation, operands[0], axis) for axis in range(rank)]
            self._vectors[operation.results[0]] = sizes
            return True
        if name == "shape.broadcast":
            vectors = [self._vectors[value] for value in operands]
            self._vectors[operation.results[0]] = functools.reduce(_broadcast, vectors)
            return True
        if name == "tensor.from_elements":
            self._vectors[operation.results[0]] = [self._sizes[value] for value in operands]
            return True
        scalar = self._scalar(operation, name, operands)
        if scalar is None:
            return False
        self._sizes[operation.results[0]] = scalar
        return True

    def _scalar(self, operation: Any, name: str, operands: Sequence[Any]) -> Size | None:
        if name == "tensor.dim":
            return self._size_of(operation, operands[0], self._sizes[operands[1]])
        if name == "shape.num_elements":
            multiply = functools.partial(self._compute, operation, "arith.muli")
            return functools.reduce(multiply, self._vectors[operands[0]], 1)
        if not all(value in self._sizes for value in operands):
            return None
        sizes = [self._sizes[value] for value in operands]
        if name in _CASTS:
            return sizes[0]
        if name in _ARITHMETIC:
            return self._compute(operation, name, sizes[0], sizes[1])
        if name == "arith.cmpi":
            return self._compare(operation, sizes[0], sizes[1])
        if name == "arith.select":
            return self._select(operation, *sizes)
        return None

    def _constant(self, operation: Any) -> None:
        from torch_mlir import ir

        result, value = operation.results[0], operation.attributes["value"]
        if isinstance(value, ir.IntegerAttr | ir.BoolAttr):
            self._sizes[result] = int(value.value)
            return
        if any(True for _ in result.uses):
            result.replace_all_uses_with(_make(operation, "stablehlo.constant", result.type, value))

    def _size_of(self, before: Any, value: Any, axis: int) -> Size:
        """The size of one dimension: a number, or asked of the value once."""
        from torch_mlir import ir

        if not value.type.is_dynamic_dim(axis):
            return int(value.type.shape[axis])
        key = (value, axis)
        if key not in self._asked:
            with ir.InsertionPoint(before), before.location:
                self._asked[key] = ir.Operation.create(
                    "stablehlo.get_dimension_size",
                    results=[_size_type()],
                    operands=[value],
                    attributes={
                        "dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
                    },
                ).results[0]
        return self._asked[key]

    def _compute(self, before: Any, name: str, left: Size, right: Size) -> Size:
        stablehlo, fold = _ARITHMETIC[name]
        if isinstance(left, int) and isinstance(right, int):
            return fold(left, right)
        for one, other in ((left, right), (right, left)):
            if name == "arith.muli" and isinstance(other, int) and other == 1:
                return one
        operands = [self._tensor(before, left), self._tensor(before, right)]
        return _operation(before, stablehlo, [_size_type()], operands)

    def _compare(self, operation: Any, left: Size, right: Size) -> Size:
        from torch_mlir import ir

        direction = _PREDICATES.get(ir.IntegerAttr(operation.attributes["predicate"]).value, "GE")
        if isinstance(left, int) and isinstance(right, int):
            return int(_COMPARE[direction](left, right))
        attribute = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
        return _operation(
            operation,
            "stablehlo.compare",
            [ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))],
            [self._tensor(operation, left), self._tensor(operation, right)],
            {"comparison_direction": attribute},
        )

    def _select(self, operation: Any, choice: Size, yes: Size, no: Size) -> Size:
        if isinstance(choice, int):
            return yes if choice else no
        values = [choice, self._tensor(operation, yes), self._tensor(operation, no)]
        return _operation(operation, "stablehlo.select", [_size_type()], values)

    def _tensor(self, before: Any, size: Size) -> Any:
        """A size as a value of type `tensor<i32>`."""
        from torch_mlir import ir

        if not isinstance(size, int):
            return size
        element = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), size)
        splat = ir.DenseElementsAttr.get_splat(_size_type(), element)
        return _make(before, "stablehlo.constant", _size_type(), splat)

    def _materialise_operands(self, operation: Any) -> None:
        """Give an operation the StableHLO form of each size operand."""
        for index, value in enumerate(operation.operands):
            if value in self._vectors:
                operation.operands[index] = self._materialise(operation, value)

    def _materialise(self, before: Any, value: Any) -> Any:
        """A vector of sizes as one tensor, of i32 where it was of index."""
        import numpy as np
        from torch_mlir import ir

        sizes, kind = self._vectors[value], value.type
        element = kind.element_type
        if not isinstance(element, ir.IntegerType):
            element = ir.IntegerType.get_signless(32)
        wanted = ir.RankedTensorType.get(list(kind.shape), element)
        i32 = ir.IntegerType.get_signless(32)
        narrow = ir.RankedTensorType.get(list(kind.shape), i32)
        if all(isinstance(size, int) for size in sizes):
            numbers = np.array(sizes, dtype=np.int32 if element.width == 32 else np.int64)
            attribute = ir.DenseElementsAttr.get(numbers.reshape(kind.shape), type=wanted)
            return _make(before, "stablehlo.constant", wanted, attribute)
        single = ir.RankedTensorType.get([1], i32)
        parts = [
            _operation(before, "stablehlo.reshape", [single], [self._tensor(before, size)])
            for size in sizes
        ]
        whole = parts[0]
        if not kind.shape:
            whole = self._tensor(before, sizes[0])
        elif len(parts) > 1:
            axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
            whole = _operation(
                before, "stablehlo.concatenate", [narrow], parts, {"dimension": axis}
            )
        if wanted == narrow:
            return whole
        return _operation(before, "stablehlo.convert", [wanted], [whole])


def _broadcast(left: Sequence[Size], right: Sequence[Size]) -> list[Size]:
    """The shape that both extend to; torch.export has seen to it that they fit."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    padded: list[Size] = [1] * (len(longer) - len(shorter)) + list(shorter)
    return [_fitting(one, other) for one, other in zip(longer, padded, strict=True)]


def _fitting(one: Size, other: Size) -> Size:
    if isinstance(one, int):
        return other if one == 1 else one
    return other if isinstance(other, int) and other != 1 else one


def _size_type() -> Any:
    from torch_mlir import ir

    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))


def _make(before: Any, name: str, kind: Any, value: Any) -> Any:
    return _operation(before, name, [kind], [], {"value": value})


def _operation(
    before: Any,
    name: str,
    results: Sequence[Any],
    operands: Sequence[Any],
    attributes: dict[str, Any] | None = None,
) -> Any:
    from torch_mlir import ir

    with ir.InsertionPoint(before), before.location:
        made = ir.Operation.create(
            name, results=list(results), operands=list(operands), attributes=attributes or {}
        )
    return made.results[0]
