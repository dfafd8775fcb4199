"""Integers of 2 and 4 bits as bytes, throughout a program: the compiler does not compute with them.

A value is in a byte of its own, with its sign: what may leave its range is wrapped again. In and
out a program's arrays are bytes, too, an element each, as NumPy has them. On the bindings that the
caller names, which are iree.compiler's or jaxlib's.
"""

from collections.abc import Callable, Sequence
from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["NARROW", "widen"]

NARROW = {"i2": "i8", "i4": "i8", "ui2": "ui8", "ui4": "ui8"}
"""Integers, and those of a byte that they are within, as MLIR spells them."""
_BITS = {"i2": 2, "i4": 4, "ui2": 2, "ui4": 4}
_LEAVING = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "constant", "convert", "convolution", "divide", "dot", "dot_general"),
        *("iota", "multiply", "negate", "not", "power", "shift_left", "subtract"),
    )
)
"""What may give a number that has more bits than it was given."""


def widen(ir: Any, module: Any, main: Any) -> None:
    """Rewrite a program in place.

    Args:
        ir: the bindings' module.
        module: of StableHLO.
        main: its function, whose arguments come from outside.
    """
    found = [
        (each, [_name(ir, v) for v in each.operands], [_name(ir, v) for v in each.results])
        for each in inside(module.operation)
    ]
    given = [_name(ir, argument) for argument in main.regions[0].blocks[0].arguments]
    if any(given) or any(name for _, *names in found for each in names for name in each):
        _Widening(ir).widen(found, main, given)


def _name(ir: Any, value: Any) -> str:
    """The type of a value's elements where they are narrow; nothing for others."""
    if not _is_array(ir, value.type):
        return ""
    name = str(ir.RankedTensorType(value.type).element_type)
    return name if name in NARROW else ""


def _is_array(ir: Any, kind: Any) -> bool:
    return str(kind).startswith("tensor<")


class _Widening:
    def __init__(self, ir: Any) -> None:
        self._ir = ir

    def widen(
        self, found: Sequence[tuple[Any, list[str], list[str]]], main: Any, given: Sequence[str]
    ) -> None:
        """Retype every value, and mend what the operations then give.

        Args:
            found: each operation, with what its operands and its results were.
            main: the function, whose arguments come from outside.
            given: what its arguments were.
        """
        block = main.regions[0].blocks[0]
        for operation, _, _ in found:
            self._retype(operation)
        for operation, before, after in found:
            mend = _MENDED.get(operation.name)
            if mend is not None and any((*before, *after)):
                mend(self, operation, before, after)
            elif operation.name in _LEAVING:
                for result, name in zip(operation.results, after, strict=True):
                    self._wrap(result, name, self._ir.InsertionPoint.after(operation))
        for argument, name in zip(block.arguments, given, strict=True):
            self._wrap(argument, name, self._ir.InsertionPoint.at_block_begin(block))

    def _retype(self, operation: Any) -> None:
        ir = self._ir
        for result in operation.results:
            self._set(result)
        for region in operation.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    self._set(argument)
        if operation.name == "func.func":
            kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
            inputs, results = map(self._wide, kind.inputs), map(self._wide, kind.results)
            made = ir.FunctionType.get(list(inputs), list(results))
            operation.attributes["function_type"] = ir.TypeAttr.get(made)
        if operation.name == "stablehlo.constant":
            text, _, kind = str(operation.attributes["value"]).rpartition(" : ")
            wide = self._wide(ir.Type.parse(kind))
            if str(wide) != kind:
                operation.attributes["value"] = ir.Attribute.parse(f"{text} : {wide}")

    def _set(self, value: Any) -> None:
        if _name(self._ir, value):
            value.set_type(self._wide(value.type))

    def _wide(self, kind: Any) -> Any:
        ir = self._ir
        if not _is_array(ir, kind):
            return kind
        array = ir.RankedTensorType(kind)
        wide = NARROW.get(str(array.element_type))
        return kind if wide is None else ir.RankedTensorType.get(array.shape, ir.Type.parse(wide))

    # --- building ---------------------------------------------------------------------------------

    def _make(self, name: str, operands: list[Any], kind: Any, **attributes: Any) -> Any:
        made = self._ir.Operation.create(
            f"stablehlo.{name}", results=[kind], operands=operands, attributes=attributes
        )
        return made.results[0]

    def _known(self, like: Any, value: int) -> Any:
        text = f"dense<{value}> : {like.type}"
        return self._make("constant", [], like.type, value=self._ir.Attribute.parse(text))

    def _two(self, name: str, value: Any, number: int) -> Any:
        return self._make(name, [value, self._known(value, number)], value.type)

    def _wrapped(self, value: Any, name: str) -> Any:
        """A byte as the narrow number in its lowest bits."""
        gone = 8 - _BITS[name]
        if name.startswith("u"):
            return self._two("and", value, 255 >> gone)
        return self._two("shift_right_arithmetic", self._two("shift_left", value, gone), gone)

    def _wrap(self, value: Any, name: str, point: Any) -> None:
        """Let all that uses a value use it wrapped."""
        if not name or not any(True for _ in value.uses):
            return
        uses = list(value.uses)
        with point, self._ir.Location.unknown():
            made = self._wrapped(value, name)
        for use in uses:
            use.owner.operation.operands[use.operand_number] = made

    def _lowest(self, value: Any, name: str) -> Any:
        """The bits of a number as one that is not negative."""
        return self._two("and", value, (1 << _BITS[name]) - 1)

    # --- operations that look at bits -------------------------------------------------------------

    def bits_of_operand(self, operation: Any, before: list[str], after: list[str]) -> None:
        """`shift_right_logical`, `popcnt`: of the lowest bits alone."""
        with self._ir.InsertionPoint(operation), operation.location:
            operation.operands[0] = self._lowest(operation.operands[0], before[0])
        self._wrap(operation.results[0], after[0], self._ir.InsertionPoint.after(operation))

    def leading(self, operation: Any, before: list[str], after: list[str]) -> None:
        """`count_leading_zeros`: without those of the byte."""
        self.bits_of_operand(operation, before, [""])
        result = operation.results[0]
        uses = list(result.uses)
        with self._ir.InsertionPoint.after(operation), operation.location:
            made = self._two("subtract", result, 8 - _BITS[before[0]])
        for use in uses:
            use.owner.operation.operands[use.operand_number] = made
        del after

    def same_bits(self, operation: Any, before: list[str], after: list[str]) -> None:
        """`bitcast_convert`: several narrow numbers are a byte, the first its lowest bits."""
        ir = self._ir
        value, result = operation.operands[0], operation.results[0]
        with ir.InsertionPoint(operation), operation.location:
            if before[0] and after[0] and _BITS[before[0]] == _BITS[after[0]]:
                made = self._make("convert", [value], result.type)
            else:
                packed = self._packed(value, before[0]) if before[0] else value
                made = self._cast(packed, result, after[0])
            if after[0]:
                made = self._wrapped(made, after[0])
        result.replace_all_uses_with(made)
        operation.erase()

    def _packed(self, value: Any, name: str) -> Any:
        """[.., k n] of narrow numbers, k in a byte, to bytes: [..] where n is 1, else [.., n]."""
        ir = self._ir
        shape = list(ir.RankedTensorType(value.type).shape)
        each = 8 // _BITS[name]
        size = ir.Type.parse("ui8")
        apart = ir.RankedTensorType.get([*shape[:-1], shape[-1] // each, each], size)
        value = self._make("convert", [value], ir.RankedTensorType.get(shape, size))
        value = self._make("reshape", [self._lowest(value, name)], apart)
        whole = None
        count = len(shape) + 1
        for place in range(each):
            part = ir.RankedTensorType.get([*shape[:-1], shape[-1] // each, 1], size)
            limits = [*shape[:-1], shape[-1] // each, place + 1]
            starts = [*[0] * (count - 1), place]
            one = self._make(
                "slice",
                [value],
                part,
                start_indices=ir.DenseI64ArrayAttr.get(starts),
                limit_indices=ir.DenseI64ArrayAttr.get(limits),
                strides=ir.DenseI64ArrayAttr.get([1] * count),
            )
            one = self._two("shift_left", one, place * _BITS[name])
            whole = one if whole is None else self._make("or", [whole, one], one.type)
        rest = [] if shape[-1] == each else [shape[-1] // each]
        return self._make("reshape", [whole], ir.RankedTensorType.get([*shape[:-1], *rest], size))

    def _cast(self, value: Any, result: Any, name: str) -> Any:
        """Bytes, or wider numbers, as the result's elements."""
        ir = self._ir
        if not name:
            if str(value.type) == str(result.type):
                return value
            return self._make("bitcast_convert", [value], result.type)
        shape = list(ir.RankedTensorType(result.type).shape)
        size = ir.Type.parse("ui8")
        each = 8 // _BITS[name]
        bytes_ = [*shape[:-1], shape[-1] // each]
        flat = bytes_ if bytes_[-1] > 1 else bytes_[:-1]
        value = self._make("bitcast_convert", [value], ir.RankedTensorType.get(flat, size))
        apart = ir.RankedTensorType.get([*bytes_, each], size)
        dims = ir.DenseI64ArrayAttr.get(range(len(flat)))
        value = self._make("broadcast_in_dim", [value], apart, broadcast_dimensions=dims)
        dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(bytes_))
        steps = self._make("iota", [], apart, iota_dimension=dimension)
        steps = self._two("multiply", steps, _BITS[name])
        value = self._make("shift_right_logical", [value, steps], apart)
        value = self._make("reshape", [value], ir.RankedTensorType.get(shape, size))
        return self._make("convert", [value], result.type)


_MENDED: dict[str, Callable[[_Widening, Any, list[str], list[str]], None]] = {
    "stablehlo.shift_right_logical": _Widening.bits_of_operand,
    "stablehlo.popcnt": _Widening.bits_of_operand,
    "stablehlo.count_leading_zeros": _Widening.leading,
    "stablehlo.bitcast_convert": _Widening.same_bits,
}
"""What looks at bits that a narrow number has not, or whose sizes follow from how many it has."""
