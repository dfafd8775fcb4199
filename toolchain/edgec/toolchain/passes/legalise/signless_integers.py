"""Unsigned integers are kept as plain bits; only operations that read a sign see them unsigned."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.functions import entry_block, functions, inside, returns
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SignlessIntegers"]

_READ_SIGN = {
    f"stablehlo.{name}"
    for name in (
        *("abs", "clamp", "compare", "convert", "custom_call", "divide", "maximum", "minimum"),
        *("power", "remainder", "rng", "rng_bit_generator", "sign", "uniform_quantize"),
    )
}
_PRODUCTS = {"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.dot"}


@dataclass(frozen=True, kw_only=True)
class SignlessIntegers:
    """Values of unsigned integers become signless ones, except at a function's surface.

    iree-compile 3.13 turns unsigned types into signless ones while it turns operations into
    linalg, and some operations forget to: `concatenate`, `scatter`, windows, sorts and `top_k` of
    unsigned integers are refused ("unresolved target materialization from ('ui32') to ('i32')",
    "integer return type must be signless"). Most operations mean the same on either; division,
    order and conversions get their operands as unsigned and give their result back as bits. Bits
    cost nothing: the two types are one in memory. Products that widen bytes convert them first.

    The types of public functions stay as they were declared.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 551 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 6 without.
    """

    name = "signless-integers"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SignlessIntegers | None":
        """For programs in StableHLO of static shapes; others write no unsigned types."""
        return cls() if situation.is_stablehlo and not situation.is_dynamic else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values changed."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            found = functions(module)
            if not any(_is_unsigned(v) for f in found.values() for v in _values(f)):
                return 0
            public = {name for name, f in found.items() if _is_public(f)}
            count = 0
            for function in found.values():
                if not list(function.regions[0].blocks):
                    continue
                count += _change(function, public)
                if _is_public(function):
                    _keep_surface(function)
                _set_type(function)
            return count


def _values(function: Any) -> Iterator[Any]:
    """Every block argument and result in a function."""
    yield from entry_block(function).arguments if list(function.regions[0].blocks) else ()
    for op in inside(function):
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.arguments


def _is_unsigned(value: Any) -> bool:
    from iree.compiler import ir

    kind = value.type
    if not isinstance(kind, ir.RankedTensorType):
        return False
    element = kind.element_type
    return isinstance(element, ir.IntegerType) and bool(element.is_unsigned)


def _signless(kind: Any) -> Any:
    from iree.compiler import ir

    element = ir.IntegerType.get_signless(ir.IntegerType(kind.element_type).width)
    return ir.RankedTensorType.get(kind.shape, element, kind.encoding)


def _bits(value: Any, kind: Any) -> Any:
    from iree.compiler import ir

    return ir.Operation.create("stablehlo.bitcast_convert", results=[kind], operands=[value]).result


def _change(function: Any, public: set[str]) -> int:
    """Make every value of a function signless."""
    from iree.compiler import ir

    operations = list(inside(function))
    unsigned = {v: v.type for v in _values(function) if _is_unsigned(v)}
    reads = [
        (
            op,
            [unsigned.get(v) for v in op.operands],
            [(i, r.type) for i, r in enumerate(op.results) if _is_unsigned(r)],
        )
        for op in operations
        if _reads_sign(op, public)
    ]
    products = [
        (op, [unsigned.get(v) for v in op.operands]) for op in operations if op.name in _PRODUCTS
    ]
    for value, kind in unsigned.items():
        value.set_type(_signless(kind))
    for op in operations:
        if op.name == "stablehlo.constant" and op.results[0] in unsigned:
            op.attributes["value"] = _constant(op.attributes["value"], op.results[0].type)
        elif op.name == "stablehlo.bitcast_convert" and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    for op, operand_types, kept in reads:
        with ir.InsertionPoint(op):
            for index, kind in enumerate(operand_types):
                if kind is not None:
                    op.operands[index] = _bits(op.operands[index], kind)
        with ir.InsertionPoint.after(op):
            for index, kind in kept:
                result = op.results[index]
                plain = result.type
                result.set_type(kind)
                back = _bits(result, plain)
                result.replace_all_uses_except(back, back.owner.operation)
    for op, kinds in products:
        _widen(op, kinds)
    return len(unsigned)


def _reads_sign(op: Any, public: set[str]) -> bool:
    from iree.compiler import ir

    if op.name == "func.call":
        return ir.FlatSymbolRefAttr(op.attributes["callee"]).value in public
    if op.name.startswith("chlo."):
        return True
    return op.name in _READ_SIGN


def _widen(op: Any, kinds: list[Any]) -> None:
    """Convert what a product takes, if it was unsigned and the result is wider."""
    from iree.compiler import ir

    result = op.results[0].type.element_type
    with ir.InsertionPoint(op):
        for index, kind in enumerate(kinds):
            operand = op.operands[index]
            if kind is None or operand.type.element_type == result:
                continue
            wide = ir.RankedTensorType.get(kind.shape, result, kind.encoding)
            value = _bits(operand, kind)
            op.operands[index] = ir.Operation.create(
                "stablehlo.convert", results=[wide], operands=[value]
            ).result
        if any(kind is not None for kind in kinds):
            for index, operand in enumerate(op.operands):
                if operand.type.element_type != result:
                    wide = ir.RankedTensorType.get(operand.type.shape, result)
                    op.operands[index] = ir.Operation.create(
                        "stablehlo.convert", results=[wide], operands=[operand]
                    ).result


def _constant(attribute: Any, kind: Any) -> Any:
    from iree.compiler import ir

    width = ir.IntegerType(kind.element_type).width
    if attribute.is_splat:
        number = ir.IntegerAttr(attribute.get_splat_value()).value
        if number >= 1 << (width - 1):
            number -= 1 << width
        return ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, number))
    values = np.ascontiguousarray(np.array(attribute))
    return ir.DenseElementsAttr.get(values.view(f"int{width}"), type=kind)


def _is_public(function: Any) -> bool:
    from iree.compiler import ir

    if "sym_visibility" not in function.attributes:
        return True
    return bool(ir.StringAttr(function.attributes["sym_visibility"]).value == "public")


def _keep_surface(function: Any) -> None:
    """Give a public function its unsigned arguments and results back."""
    from iree.compiler import ir

    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    block = entry_block(function)
    with ir.InsertionPoint.at_block_begin(block):
        for argument, declared in zip(block.arguments, kind.inputs, strict=True):
            if argument.type != declared:
                plain = argument.type
                argument.set_type(declared)
                bits = _bits(argument, plain)
                argument.replace_all_uses_except(bits, bits.owner.operation)
    for end in list(returns(function)):
        with ir.InsertionPoint(end):
            for index, declared in enumerate(kind.results):
                if end.operands[index].type != declared:
                    end.operands[index] = _bits(end.operands[index], declared)


def _set_type(function: Any) -> None:
    from iree.compiler import ir

    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs = [argument.type for argument in entry_block(function).arguments]
    end = next(returns(function), None)
    results = list(kind.results) if end is None else [v.type for v in end.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
