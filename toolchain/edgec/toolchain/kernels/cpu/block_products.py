"""Products by weights in blocks to calls of the CPU's kernels, or why not.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.standing import stand_for
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source import Convolution, Result, convolution_kernel, tiling
from edgec.toolchain.kernels.cpu.source.block_bytes import block_bytes_kernel
from edgec.toolchain.kernels.cpu.source.block_codes import BlockWeights
from edgec.toolchain.kernels.cpu.source.block_numbers import NumberKind
from edgec.toolchain.kernels.cpu.source.block_panels import BlockPanels
from edgec.toolchain.kernels.cpu.source.block_rows import (
    MOST_ROWS,
    block_rows_kernel,
    codes_for,
    stack_needed,
)
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.rounded_rows import ByteCodes, byte_codes_for
from edgec.toolchain.kernels.cpu.source.tall_product import tall_product_kernel
from edgec.toolchain.kernels.cpu.source.tall_rows import tall_rows_kernel
from edgec.toolchain.kernels.cpu.source.tall_tiles import TallTiles, tall_tiles
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.tails import Tail, find_tail
from edgec.toolchain.kernels.longest import say_cut_short
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.block_product import BlockProduct, read_block_product
from edgec.toolchain.match.blocks import Blocks, Grouped
from edgec.toolchain.match.description import validate

__all__ = ["place_block_product"]

_STACK_SHARE = 2
_LEAST_OUTPUTS = 4


def place_block_product(
    op: Any,
    library: Library,
    unit: VectorUnit,
    dot: DotUnit | None,
    halves: bool,
    answers: Answers,
) -> bool:
    """Put kernels in place of a `stablehlo.dot_general` whose weights are kept in blocks.

    Args:
        op: the operation.
        library: where the kernels go.
        unit: the vector registers of the target.
        dot: how it multiplies bytes; None where it does not.
        halves: whether the target converts 16-bit floats.
        answers: where the answer is kept.
    """
    found = read_block_product(op)
    if found is None:
        return False
    weights = _weights(found.weights, halves)
    codes = cut = rounded = None
    if isinstance(weights, BlockWeights):
        codes = None if dot is None else byte_codes_for(weights, dot)
        rounded = None if codes is None else found.in_bytes
        if found.rows > MOST_ROWS:
            cut = tall_tiles(weights, found.rows, unit, None if rounded is None else dot)
            rounded = None if cut is None else rounded
            cut = cut or tall_tiles(weights, found.rows, unit, None)
    found = found if rounded is None else rounded
    outcome = weights if isinstance(weights, Declined) else _answer(found, weights, cut, unit)
    answers.record(op, str(found), found.work, outcome)
    if isinstance(weights, Declined) or isinstance(outcome, Declined):
        return False
    validate(found, "product by blocks")
    tail = find_tail(op.results[0], (), reshaped=True)
    last = tail.operations[-1] if tail.operations else op
    with ir.InsertionPoint(last), op.location:
        if cut is not None:
            result = _tall(op, found, cut, tail, library, unit)
        elif codes is not None and found.rounded is not None:
            result = _few_bytes(found, codes, tail, library, unit)
        elif outcome.name == _FEW:
            result = _few(found, weights, tail, library, unit)
        else:
            result = _many(found, weights, tail, library, unit)
    stand_for(tail.value, result)
    for each in reversed(tail.operations):
        each.erase()
    say_cut_short(result, tail.why, answers)
    return True


_FEW, _MANY = "product of a few rows by blocks", "product by blocks"


def _weights(blocks: Blocks, halves: bool) -> BlockWeights | Declined:
    """The blocks as kernels take them: numbers in the order of the groups.

    Halves that the target does not convert are read as their bits.
    """
    groups = blocks.groups
    for each in (blocks.scale, blocks.least):
        if each is not None and not each.in_order(blocks.outputs, groups):
            return Declined(reason="scales in another order than the weights")
        if each is not None and each.shared & (each.shared - 1):
            return Declined(reason=f"factors of {each.shared} groups together")
    return BlockWeights(
        outputs=blocks.outputs,
        inner=blocks.inner,
        group=blocks.group,
        bits=blocks.bits,
        span=blocks.span,
        zero=blocks.zero,
        scale=_kind(blocks.scale, halves),
        least=None if blocks.least is None else _kind(blocks.least, halves),
    )


def _kind(numbers: Grouped, halves: bool) -> NumberKind:
    factor = "" if numbers.factor is None else numbers.factor.element
    kept = {} if halves else {"f16": "i16"}
    return NumberKind(
        element=kept.get(numbers.element, numbers.element),
        factor=kept.get(factor, factor),
        shared=numbers.shared,
    )


def _answer(
    found: BlockProduct,
    weights: BlockWeights,
    cut: TallTiles | None,
    unit: VectorUnit,
) -> Kernel | Declined:
    """Which kernel takes the product, or why none does."""
    if set(found.elements) != {"f32"}:
        return Declined(reason=f"activations of {found.elements[0]}")
    if weights.outputs < _LEAST_OUTPUTS:
        return Declined(reason=f"{weights.outputs} outputs")
    if found.rows <= MOST_ROWS:
        if codes_for(weights, unit) is None:
            return Declined(reason=f"{found.weights} of {weights.inner} neighbours")
        if stack_needed(weights, found.rows) > unit.stack // _STACK_SHARE:
            return Declined(reason=f"rows of {weights.inner} elements")
        return Kernel(name=_FEW)
    if cut is None and not BlockPanels.takes(weights):
        return Declined(reason=f"{found.weights} of {weights.inner} neighbours")
    return Kernel(name=_MANY)


def _few(
    found: BlockProduct, weights: BlockWeights, tail: Tail, library: Library, unit: VectorUnit
) -> Any:
    codes = codes_for(weights, unit)
    if codes is None:
        raise ValueError("a kernel was promised for weights that it does not take")
    result = Result(width=found.rows, channels=weights.outputs, epilogue=tail.epilogue)
    name = f"edgec_blocks{_sizes(found, weights)}"
    text = block_rows_kernel("NAME", codes, result, unit)
    operands = [found.left, *found.weights.values, *tail.channels, *tail.tensors]
    return library.call(name, text, operands, tail.value.type)


def _few_bytes(
    found: BlockProduct, codes: ByteCodes, tail: Tail, library: Library, unit: VectorUnit
) -> Any:
    weights = codes.weights
    result = Result(width=found.rows, channels=weights.outputs, epilogue=tail.epilogue)
    name = f"edgec_bytes{_sizes(found, weights)}"
    text = block_bytes_kernel("NAME", codes, result, unit)
    operands = [found.left, *found.weights.values, *tail.channels, *tail.tensors]
    return library.call(name, text, operands, tail.value.type)


def _tall(
    op: Any, found: BlockProduct, cut: TallTiles, tail: Tail, library: Library, unit: VectorUnit
) -> Any:
    """The rows laid out, and then the product of what lies so."""
    weights = cut.weights
    result = Result(width=found.rows, channels=weights.outputs, epilogue=tail.epilogue)
    kind = "bytes" if cut.dot else "floats"
    element = ir.IntegerType.get_signless(32) if cut.dot else ir.F32Type.get()
    with ir.InsertionPoint(op):  # before the tail: other products read these rows, too
        laid = library.call_once(
            f"edgec_{kind}_{found.rows}x{weights.inner}",
            tall_rows_kernel("NAME", cut, unit),
            [found.left],
            ir.RankedTensorType.get([cut.laid], element),
        )
    text = tall_product_kernel("NAME", cut, result, unit)
    operands = [laid, *found.weights.values, *tail.channels, *tail.tensors]
    name = f"edgec_{kind}{_sizes(found, weights)}"
    return library.call(name, text, operands, tail.value.type)


def _many(
    found: BlockProduct, weights: BlockWeights, tail: Tail, library: Library, unit: VectorUnit
) -> Any:
    """Panels of f32, and then what any product by weights is."""
    result = Result(width=found.rows, channels=weights.outputs, epilogue=tail.epilogue)
    conv = Convolution(width=found.rows, channels=weights.inner, result=result)
    cut = tiling(conv, unit)
    panels = BlockPanels(
        weights=weights,
        lanes=cut.lanes,
        vectors=cut.vectors,
        starts=cut.starts,
        unit=unit,
        rows=found.rows * weights.inner,
    )
    sizes = _sizes(found, weights)
    f32 = ir.F32Type.get()
    unpacked = library.call(
        f"edgec_panels{sizes}",
        panels.kernel("NAME"),
        [found.left, *found.weights.values],
        ir.RankedTensorType.get([panels.size], f32),
    )
    text = convolution_kernel("NAME", conv, cut, unit)
    operands = [found.left, unpacked, *tail.channels, *tail.tensors]
    return library.call(f"edgec_unpacked{sizes}", text, operands, tail.value.type)


def _sizes(found: BlockProduct, weights: BlockWeights) -> str:
    return f"{weights.bits}_{found.rows}x{weights.inner}x{weights.outputs}"
