"""How much a StableHLO program computes, operation by operation, as it is written.

A module imported only by what runs passes; it needs the compiler.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.places import written_out
from edgec.toolchain.ir.read import convolution_layout, integers, numbers_of
from edgec.toolchain.ir.weights import fixed_globals
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.loop import blocks, turns

__all__ = ["Computed", "bytes_of", "census", "title", "uncounted"]

_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("bitcast_convert", "broadcast_in_dim", "concatenate", "convert", "copy"),
        *("dynamic_slice", "dynamic_update_slice", "gather", "pad", "reverse", "slice"),
        *("transpose", "real", "imag", "complex"),
    )
)
"""Operations that compute nothing, but have a result that somebody must write."""

_FREE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("constant", "iota", "dynamic_iota", "reshape", "return"),
        *("tuple", "get_tuple_element", "optimization_barrier"),
    )
)
_LOOPS = ("stablehlo.while", "scf.for")
_WITHOUT_BODIES = (*_LOOPS, "stablehlo.case", "stablehlo.if")
"""Regions of these are programs; all others are what is done with each element."""
_SIZES = ("stablehlo.dynamic_", "stablehlo.real_dynamic_", "stablehlo.get_dimension_size")
"""Moves whose sizes are operands."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """One operation and its work, all turns of the loops around it together."""

    op: Any
    work: Work


def census(module: Any) -> Iterator[Computed]:
    """Every StableHLO operation that a call computes or moves something with, in order.

    What follows from weights alone counts nothing: it is done once, when the module is loaded.
    Neither do operations on sizes that are not known. A loop of unknown length counts once, and so
    does a function that a pass has written out in many steps, by its last one.
    """
    fixed = fixed_globals(module)
    for function in module.body.operations:
        if function.operation.name != "func.func":
            continue
        for region in function.operation.regions:
            for block in region.blocks:
                yield from _block(block, 1, fixed, set())


def uncounted(module: Any) -> int:
    """How many operations that compute `census` leaves out: their sizes are chosen at each call."""
    return sum(
        _is_uncounted(op)
        for function in module.body.operations
        if function.operation.name == "func.func"
        for region in function.operation.regions
        for block in region.blocks
        for op in _programs(block)
    )


def _programs(block: Any) -> Iterator[Any]:
    """The operations of a block and of its loops and branches."""
    for each in block.operations:
        yield each.operation
        if each.operation.name in _WITHOUT_BODIES:
            for region in each.operation.regions:
                for inner in region.blocks:
                    yield from _programs(inner)


def _is_uncounted(op: Any) -> bool:
    if not op.name.startswith(("stablehlo.", "chlo.")) or op.name in _WITHOUT_BODIES:
        return False
    if all(not isinstance(v.type, ir.RankedTensorType) or _is_known(v) for v in op.results):
        return False
    if (function := written_out(op)) is not None:
        return bool(function)
    return op.name not in _MOVES | _FREE and not op.name.startswith(_SIZES)


def _block(block: Any, times: int, fixed: frozenset[str], once: set[Any]) -> Iterator[Computed]:
    """The operations of a block; `once` are the values that follow from weights alone."""
    for each in block.operations:
        op = each.operation
        if op.name == "util.global.load":
            symbol = ir.FlatSymbolRefAttr(op.attributes["global"]).value
            if symbol in fixed:
                once.update(op.results)
            continue
        plain = op.name.startswith(("stablehlo.", "chlo.")) and op.results and not op.regions
        if plain and all(value in once for value in op.operands):
            once.update(op.results)
            continue
        if op.name in _LOOPS:
            body = blocks(op)[1] if op.name == "stablehlo.while" else op.regions[0].blocks[0]
            known = turns(op)
            yield from _block(body, times * (1 if known is None else known), fixed, once)
        elif op.name in _WITHOUT_BODIES:
            for region in op.regions:
                for inner in region.blocks:
                    yield from _block(inner, times, fixed, once)
        elif op.name not in _FREE and op.name.startswith(("stablehlo.", "chlo.")):
            work = _work(op)
            if work is not None:
                yield Computed(op=op, work=Work(flops=work.flops * times, bytes=work.bytes * times))


def _work(op: Any) -> Work | None:
    values = [*op.operands, *op.results]
    if not op.results or not all(_is_known(value) for value in values):
        return None
    if (function := written_out(op)) is not None:
        return (
            Work(flops=_count(op.results[0]), bytes=bytes_of(op.results[0])) if function else None
        )
    written = sum(bytes_of(value) for value in op.results)
    count = _count(op.results[0])
    match op.name:
        case "stablehlo.dot_general":
            left = op.operands[0]
            numbers = numbers_of(op.attributes["dot_dimension_numbers"])
            summed = numbers.get("lhs_contracting_dimensions", [])
            inner = math.prod(left.type.shape[axis] for axis in summed)
            read = sum(bytes_of(value) for value in op.operands)
            return Work(flops=2 * count * inner, bytes=written + read)
        case "stablehlo.convolution":
            kernel = op.operands[1]
            _, layout, _ = convolution_layout(op)
            taken = math.prod(
                size for size, axis in zip(kernel.type.shape, layout, strict=True) if axis != "o"
            )
            read = sum(bytes_of(value) for value in op.operands)
            # Zeros put between the elements of a transposed one are no work.
            spread = math.prod(integers(op, "lhs_dilation", (1,)))
            return Work(flops=2 * count * taken // spread, bytes=written + read)
        case "stablehlo.reduce":
            sources = op.operands[: len(op.operands) // 2]
            read = sum(bytes_of(value) for value in sources)
            return Work(flops=sum(_count(value) for value in sources), bytes=written + read)
        case "stablehlo.reduce_window":
            window = math.prod(integers(op, "window_dimensions", (1,)))
            return Work(flops=count * window, bytes=written)
        case "stablehlo.dynamic_update_slice":
            return Work(bytes=bytes_of(op.operands[1]))
        case name if name in _MOVES:
            return Work(bytes=written)
        case _:
            return Work(flops=sum(_count(value) for value in op.results), bytes=written)


def _is_known(value: Any) -> bool:
    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape


def _count(value: Any) -> int:
    return math.prod(value.type.shape)


def bytes_of(value: Any) -> int:
    """Of all elements of a value whose sizes are known."""
    kind = value.type.element_type
    if isinstance(kind, ir.ComplexType):
        return _count(value) * 2 * int(ir.ComplexType(kind).element_type.width) // 8
    width = getattr(kind, "width", 64)
    return max(1, _count(value) * int(width) // 8)


def title(op: Any) -> str:
    """An operation in a few words, with the sizes that matter: `convolution 3x3, 64 to 128`."""
    result = op.results[0]
    kind = str(result.type.element_type)
    sizes = "x".join(map(str, result.type.shape))
    match op.name:
        case "stablehlo.dot_general":
            left, right = ("x".join(map(str, v.type.shape)) for v in op.operands)
            return f"product {left} by {right}, {_type_of(op.operands[0])}"
        case "stablehlo.convolution":
            kernel = op.operands[1]
            _, layout, _ = convolution_layout(op)
            window = "x".join(
                str(size)
                for size, axis in zip(kernel.type.shape, layout, strict=True)
                if axis not in ("i", "o")
            )
            groups = integers(op, "feature_group_count", (1,))[0]
            grouped = f" in {groups} groups" if groups > 1 else ""
            return f"convolution {window}{grouped} to {sizes}, {_type_of(op.operands[0])}"
        case _:
            name = (written_out(op) or op.name).partition(".")[2]
            return f"{name} to {sizes or 'a scalar'}, {kind}"


def _type_of(value: Any) -> str:
    return str(value.type.element_type)
