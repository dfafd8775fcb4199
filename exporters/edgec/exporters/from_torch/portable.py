"""What torch-mlir's lowering leaves in other dialects (shape, tensor, arith), to StableHLO.

With dynamic dimensions, torch-mlir computes sizes on the side: `shape.shape_of`, `tensor.dim`,
`arith.muli` on `index`, broadcasts guarded by `shape.assuming`. Here each size becomes a number
or a value that StableHLO itself can make, the guards, which torch.export has decided already, fall
away, and so do broadcasts to the shape that a value has.
"""

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any

from edgec.exporters.from_torch.sizes import Size, Sizes, broadcast, make
from edgec.exporters.places import innermost
from edgec.runtime.errors import UnsupportedOp

__all__ = ["only_stablehlo", "place_of"]

_ARITHMETIC = {
    "arith.addi": "add",
    "arith.subi": "subtract",
    "arith.muli": "multiply",
    "arith.divsi": "divide",
    "arith.divui": "divide",
    "arith.floordivsi": "divide",
    "arith.remsi": "remainder",
    "arith.remui": "remainder",
    "arith.maxsi": "maximum",
    "arith.maxui": "maximum",
    "arith.minsi": "minimum",
    "arith.minui": "minimum",
}
_FOLLOWED = ("add", "subtract", "multiply", "maximum", "minimum")
_CASTS = {"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci"}
_GUARDS = {"shape.cstr_broadcastable", "shape.cstr_eq", "shape.cstr_require", "shape.const_witness"}
_UNCHANGING = {"stablehlo.convert", "stablehlo.reshape", "stablehlo.ceil", "stablehlo.floor"}
_MADE_TO_SHAPE = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.dynamic_iota": 0,
}
"""Operations whose result has the sizes in one operand, and which."""


def only_stablehlo(module: Any, shapes: Sequence[Sequence[int | str]]) -> None:
    """Rewrite a `torch_mlir.ir.Module` in place.

    Args:
        module: what torch-mlir's lowering to StableHLO gave, with one function.
        shapes: the shape of each argument; a dynamic dimension by the name of its symbol.

    Raises:
        UnsupportedOp: an operation of another dialect is left that has no such form.
    """
    from torch_mlir import ir

    block = module.body.operations[0].operation.regions[0].blocks[0]
    with ir.Location.unknown(module.context):
        rewriter = _Rewriter(Sizes(list(zip(block.arguments, shapes, strict=True))))
        for item in list(block.operations):
            rewriter.one(item.operation)
        rewriter.clear()
        _drop_unused(block)


def place_of(location: Any) -> str | None:
    """The user's line in an MLIR location: the innermost one outside of libraries."""
    found = re.findall(r'"([^"]+)":(\d+):\d+', str(location))
    frames = [(file, int(line), "") for file, line in found]
    return innermost(frames)


class _Rewriter:
    """One function: what each size operation gives, and the operations that are done with."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._scalars: dict[Any, Size] = {}
        self._vectors: dict[Any, list[Size]] = {}
        self._done: list[Any] = []

    def one(self, operation: Any) -> None:
        """Rewrite one operation; those before it are rewritten already."""
        if operation.name == "shape.assuming":
            self._inline(operation)
        elif operation.name.startswith(("stablehlo.", "chlo.", "func.")):
            self._follow(operation)
            if operation.name == "stablehlo.sort":
                _keep_order(operation)
                _place_what_is_no_number(operation)
                _sort_places_in_i32(operation)
            if operation.name == "stablehlo.reduce":
                _find_what_is_no_number(operation)
            if not self._is_idle(operation):
                self._give_shapes(operation)
                self._sizes.learn(operation)
        elif self._understand(operation):
            self._done.append(operation)
        else:
            raise UnsupportedOp(
                f"the operation {operation.name} is left after lowering and is no StableHLO",
                where=place_of(operation.location),
                hint="leave the dimensions of that line static",
            )

    def clear(self) -> None:
        """Erase what has been replaced."""
        for operation in reversed(self._done):
            operation.erase()

    def _inline(self, assuming: Any) -> None:
        """Take the guarded operations out of their region."""
        inner = [item.operation for item in assuming.regions[0].blocks[0].operations]
        for operation in inner[:-1]:
            operation.move_before(assuming)
            self.one(operation)
        for result, value in zip(assuming.results, inner[-1].operands, strict=True):
            result.replace_all_uses_with(value)
        self._done.append(assuming)

    def _understand(self, operation: Any) -> bool:
        """Learn what a size operation gives; False for an operation of another kind."""
        name, operands = operation.name, list(operation.operands)
        if name in _GUARDS:
            return True
        if name == "arith.constant":
            self._constant(operation)
            return True
        result = operation.results[0]
        if name == "shape.const_shape":
            self._vectors[result] = [int(v) for v in operation.attributes["shape"]]
        elif name == "shape.shape_of":
            self._vectors[result] = self._sizes.shape(operation, operands[0])
        elif name == "shape.broadcast":
            self._vectors[result] = functools.reduce(
                broadcast, [self._vectors[value] for value in operands]
            )
        elif name == "tensor.from_elements" and all(v in self._scalars for v in operands):
            self._vectors[result] = [self._scalars[value] for value in operands]
        else:
            size = self._scalar(operation, name, operands)
            if size is None:
                return False
            self._scalars[result] = size
        return True

    def _scalar(self, operation: Any, name: str, operands: Sequence[Any]) -> Size | None:
        if name == "tensor.dim":
            return self._sizes.of(operation, operands[0], self._scalars[operands[1]])
        if name == "shape.num_elements":
            multiply = functools.partial(self._sizes.compute, operation, "multiply")
            return functools.reduce(multiply, self._vectors[operands[0]], 1)
        if not all(value in self._scalars for value in operands):
            return None
        sizes = [self._scalars[value] for value in operands]
        if name in _CASTS:
            return sizes[0]
        if name in _ARITHMETIC:
            return self._sizes.compute(operation, _ARITHMETIC[name], sizes[0], sizes[1])
        if name == "arith.cmpi":
            predicate = operation.attributes["predicate"].value
            return self._sizes.compare(operation, predicate, sizes[0], sizes[1])
        if name == "arith.select":
            return self._sizes.select(operation, *sizes)
        return None

    def _constant(self, operation: Any) -> None:
        from torch_mlir import ir

        result, value = operation.results[0], operation.attributes["value"]
        if isinstance(value, ir.IntegerAttr | ir.BoolAttr):
            self._scalars[result] = int(value.value)
        elif isinstance(value, ir.FloatAttr):
            raise UnsupportedOp(
                "a number is computed in floats on the side, which is no StableHLO",
                where=place_of(operation.location),
                hint="leave the dimensions of that line static",
            )
        elif isinstance(result.type.element_type, ir.IndexType):
            self._vectors[result] = [int(v) for v in ir.DenseIntElementsAttr(value)]
        elif any(True for _ in result.uses):
            constant = make(operation, "stablehlo.constant", result.type, [], {"value": value})
            size = _whole_number(value)
            if size is not None and list(result.type.shape) in ([], [1]):
                self._scalars[constant] = size
            result.replace_all_uses_with(constant)

    def _follow(self, operation: Any) -> None:
        """Learn the sizes that StableHLO computes: `ceil(convert(n) / 1)` in f64, for an arange."""
        if len(operation.results) != 1 or list(operation.results[0].type.shape) not in ([], [1]):
            return
        size = self._followed(operation)
        if size is not None:
            self._scalars[operation.results[0]] = size

    def _followed(self, operation: Any) -> Size | None:
        if operation.name == "stablehlo.constant":
            return _whole_number(operation.attributes["value"])
        operands = [self._known(value) for value in operation.operands]
        if not operands or any(size is None for size in operands):
            return None
        if operation.name in _UNCHANGING:
            return operands[0]
        name = operation.name.removeprefix("stablehlo.")
        if name == "divide" and isinstance(operands[1], int) and operands[1] == 1:
            return operands[0]
        if name in _FOLLOWED:
            return self._sizes.compute(operation, name, operands[0], operands[1])
        return None

    def _known(self, value: Any) -> Size | None:
        vector = self._vectors.get(value)
        return vector[0] if vector is not None and len(vector) == 1 else self._scalars.get(value)

    def _shape(self, value: Any) -> list[Size] | None:
        """The sizes in a shape operand, if they are known."""
        if value in self._vectors:
            return self._vectors[value]
        size = self._scalars.get(value)
        return None if size is None or value.type.rank != 1 else [size]

    def _is_idle(self, operation: Any) -> bool:
        """Whether a broadcast or reshape makes the shape that its operand has; then it goes."""
        if operation.name not in (
            "stablehlo.dynamic_broadcast_in_dim",
            "stablehlo.dynamic_reshape",
        ):
            return False
        value, result = operation.operands[0], operation.results[0]
        sizes = self._shape(operation.operands[1])
        if sizes is None or value.type != result.type:
            return False
        if sizes != self._sizes.shape(operation, value):
            return False
        result.replace_all_uses_with(value)
        self._done.append(operation)
        return True

    def _give_shapes(self, operation: Any) -> None:
        """Give an operation the StableHLO form of each shape operand, and note what it makes."""
        place = _MADE_TO_SHAPE.get(operation.name)
        if place is not None:
            shape = self._shape(operation.operands[place])
            if shape is not None:
                self._sizes.know(operation.results[0], shape)
        takes_shapes = "dynamic" in operation.name
        for index, value in enumerate(operation.operands):
            sizes = self._shape(value) if takes_shapes else self._vectors.get(value)
            if sizes is not None and (value in self._vectors or index or place == 0):
                operation.operands[index] = self._sizes.vector(operation, sizes, value.type)


def _keep_order(sort: Any) -> None:
    """Let equal elements stay in their order, as PyTorch's sorts on CPUs do, asked or not."""
    from torch_mlir import ir

    sort.attributes["is_stable"] = ir.BoolAttr.get(True)


def _place_what_is_no_number(sort: Any) -> None:
    """Let NaN be larger than any number, as PyTorch has it; as nothing's neighbour it has no order,
    and sorts with it give what they like."""
    from torch_mlir import ir

    end = list(sort.regions[0].blocks[0].operations)[-1].operation
    compare = end.operands[0].owner
    if isinstance(compare, ir.Block) or compare.name != "stablehlo.compare":
        return
    if not isinstance(ir.RankedTensorType(compare.operands[0].type).element_type, ir.FloatType):
        return
    direction = str(compare.attributes["comparison_direction"])
    small, large = compare.operands if "LT" in direction else reversed(list(compare.operands))
    beyond = _logical(
        end, "and", _compared(end, large, "NE", large), _compared(end, small, "EQ", small)
    )
    end.operands[0] = _logical(end, "or", compare.result, beyond)


def _find_what_is_no_number(reduce: Any) -> None:
    """Let the place of the largest, or of the smallest, be that of the first NaN, as PyTorch has
    it; it compares as neither larger nor equal, and what came before it was forgotten."""
    from torch_mlir import ir

    body = reduce.regions[0].blocks[0]
    if len(body.arguments) != 4:
        return
    left, right = body.arguments[0], body.arguments[2]
    if not isinstance(ir.RankedTensorType(left.type).element_type, ir.FloatType):
        return
    for compare, after in itertools.pairwise([each.operation for each in body.operations]):
        if compare.name != "stablehlo.compare" or list(compare.operands) != [left, right]:
            continue
        direction = str(compare.attributes["comparison_direction"])
        if not any(name in direction for name in ("GE", "LE", "EQ")):
            continue
        found = _compared(after, left, "NE", left)
        if "EQ" in direction:
            found = _logical(after, "and", found, _compared(after, right, "NE", right))
        known = _logical(after, "or", compare.result, found)
        compare.result.replace_all_uses_except(known, known.owner.operation)


def _compared(before: Any, left: Any, direction: str, right: Any) -> Any:
    """A comparison of two scalars."""
    from torch_mlir import ir

    told = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    truth = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    return make(before, "stablehlo.compare", truth, [left, right], {"comparison_direction": told})


def _logical(before: Any, name: str, left: Any, right: Any) -> Any:
    """Two truths to one, by `and` or `or`."""
    return make(before, f"stablehlo.{name}", left.type, [left, right])


def _sort_places_in_i32(sort: Any) -> None:
    """Let a sort carry i32 places, as the compiler takes it; it refuses the top-k of i64 ones."""
    from torch_mlir import ir

    i32 = ir.IntegerType.get_signless(32)
    body = sort.regions[0].blocks[0]
    following = list(sort.block.operations)
    after = next(i for i, item in enumerate(following) if item.operation == sort) + 1
    for index, value in enumerate(sort.operands):
        kind = value.type
        is_iota = not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.iota"
        pair = (body.arguments[2 * index], body.arguments[2 * index + 1])
        if not is_iota or any(True for argument in pair for _ in argument.uses):
            continue
        narrow = ir.RankedTensorType.get(list(kind.shape), i32)
        number = value.owner.attributes["iota_dimension"]
        sort.operands[index] = make(sort, "stablehlo.iota", narrow, [], {"iota_dimension": number})
        for argument in pair:
            argument.set_type(ir.RankedTensorType.get([], i32))
        result = sort.results[index]
        result.set_type(narrow)
        converted = make(following[after].operation, "stablehlo.convert", kind, [result])
        result.replace_all_uses_except(converted, converted.owner.operation)


def _drop_unused(block: Any) -> None:
    """Erase what nothing uses; everything but the return is free of side effects."""
    for item in reversed(list(block.operations)):
        operation = item.operation
        used = any(True for result in operation.results for _ in result.uses)
        if operation.results and not used:
            operation.erase()


def _whole_number(attribute: Any) -> int | None:
    """The one number in a constant, if it is a whole one."""
    from torch_mlir import ir

    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    value = attribute.get_splat_value()
    if isinstance(value, ir.IntegerAttr):
        return int(value.value)
    if isinstance(value, ir.FloatAttr) and float(value.value).is_integer():
        return int(value.value)
    return None
