"""Products by weights in blocks to dispatches of the kernels that read the blocks.

A module imported only by a pass that runs; it needs the compiler.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.gpu.block_calls import (
    BlockCall,
    block_calls,
    many_row_calls,
    parts_of,
    place_call,
)
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.block_choice import choose
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS, BlockForm
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.block_product import BlockProduct
from edgec.toolchain.match.blocks import Blocks, Grouped
from edgec.toolchain.match.norm import Norm

__all__ = ["place_block_products"]

_MOST_SETS = 3
_WORD = 32
_BITS = {"f32": 32, "f16": 16, "i8": 8}
_PIECE = 128
"""Bits of codes that a thread reads at once."""
_LANES = (32, 16, 8, 4)
_MOST_LANES = 64
_EACH = (1, 2, 4)
_THREADS = 512
"""That a multiprocessor works at together."""
_MOST_OUTPUTS = 1 << 20
_WIDE = 4
"""The bit of `what` that stores f32."""
_OUTPUT = 0.5
"""What an output adds to a turn, where the row's piece is 1."""


def place_block_products(module: Any, library: Library) -> None:
    """Rewrite `module` in place, where a kernel takes a product."""

    def most(product: BlockProduct) -> int:
        return _most(product, library)

    def make(call: BlockCall) -> list[Any] | Declined:
        if not library.compiles:
            library.unread += len(call.products)
            return Declined(reason="a kernel that needs edgec[vulkan] to be compiled")
        return _many_rows(call, library) if call.has_many_rows else _few_rows(call, library)

    few = block_calls(module, library.answers, most, _unfit)
    for call in itertools.chain(few, many_row_calls(module, library.answers, _unfit)):
        place_call(call, library.answers, make)


def _most(product: BlockProduct, library: Library) -> int:
    """How many products like one a dispatch is given the memory of, at most."""
    each = len(product.weights.values) + 1
    return max(1, min(_MOST_SETS, (library.most_bindings - 2) // each))


def _unfit(found: BlockProduct) -> str:
    """Why this kernel does not take a product that others do; empty if it does."""
    if found.weights.outputs > _MOST_OUTPUTS:
        return f"{found.weights.outputs} outputs"
    for value in found.weights.values[1:]:
        count = math.prod(shape(value))
        if count * _BITS[str(value.type.element_type)] % _WORD:
            return f"{count} scales, no whole words"
    return ""


def _many_rows(call: BlockCall, library: Library) -> list[Any] | Declined:
    """The result of the kernel for many rows, or why there is none."""
    (product,) = call.products
    weights, rows = product.weights, product.rows
    pieces = weights.inner * weights.bits // _PIECE
    form, parts = choose(library.gpu, (rows, weights.outputs, pieces))
    each = math.ceil(pieces / parts)
    split = parts > 1
    after = {} if split else _after(call)
    reads = {"X_AT": product.left, **after, **_parts(call)}
    bindings = [*reads, "C_AT"]
    if len(bindings) > library.most_bindings:
        return Declined(reason=f"{len(bindings)} pieces of memory")
    words = {name: place for place, name in enumerate(bindings)}
    sizes = (rows, weights.outputs)
    f32 = ir.F32Type.get()
    kind = ir.RankedTensorType.get([parts, *sizes] if split else sizes, f32)
    values = {"m": rows, "outputs0": weights.outputs, "pieces": each, **call.after}
    if split:
        values["what"] = _WIDE
    tiles = math.ceil(rows / form.rows) * math.ceil(weights.outputs / form.columns)
    if tiles > MOST_GROUPS:
        return Declined(reason=f"{tiles} tiles")
    shader = shaders.block_product(form, {**_sizes(weights), **words})
    total = library.call(shader, (tiles, parts, 1), values, list(reads.values()), kind)
    if split and not isinstance(total, Declined):
        last, tail = ir.RankedTensorType.get([1, *sizes], f32), call.finish
        following = list(tail.reads(product.left).values())
        total = library.join(total, f32, (parts, *sizes), following, last, tail)
    return total if isinstance(total, Declined) else [total]


def _few_rows(call: BlockCall, library: Library) -> list[Any] | Declined:
    """The results of the kernel for few rows, or why there is none."""
    norm = call.norm
    reads = _reads(call, norm)
    if norm is not None and len(reads) + len(call.last) > library.most_bindings:
        norm = None
        reads = _reads(call, norm)
    bindings = [*reads, *(f"C_AT{number}" for number in range(len(call.last)))]
    if len(bindings) > library.most_bindings:
        return Declined(reason=f"{len(bindings)} pieces of memory")
    first = call.products[0]
    outputs = [product.weights.outputs for product in call.products]
    tiled = outputs[:1] if call.gate else outputs
    form = _form(first.weights, tiled, first.rows, library)
    kinds = [
        ir.RankedTensorType.get([first.rows, size], ir.F32Type.get())
        for size in outputs[: len(call.last)]
    ]
    words = {name: place for place, name in enumerate(bindings)}
    shader = shaders.block_rows(
        form,
        {**_sizes(first.weights), "SETS": len(outputs), "GATED": call.gate, **words},
        sets=len(outputs),
        normed=norm is not None,
    )
    values = {f"outputs{number}": size for number, size in enumerate(outputs)}
    values |= {"eps_bits": 0 if norm is None else bits(norm.epsilon), **call.after}
    grid = (_tiles(tiled, form), first.rows, 1)
    return library.call_all(shader, grid, values, list(reads.values()), kinds)


def _reads(call: BlockCall, norm: Norm | None) -> dict[str, Any]:
    """What the kernel reads, by what its source calls their bindings."""
    reads = {"X_AT": call.products[0].left if norm is None else norm.source}
    if norm is not None and norm.scale is not None:
        reads["NORM_AT"] = norm.scale.value
    if len(call.products) == 1:
        reads |= _after(call)
    return reads | _parts(call)


def _after(call: BlockCall) -> dict[str, Any]:
    """What is read by what follows, by the same names."""
    tail = call.finish
    after = {"BIAS_AT": tail.bias, "FACTOR_AT": tail.scale, "OTHER_AT": tail.other}
    return {name: value for name, value in after.items() if value is not None}


def _parts(call: BlockCall) -> dict[str, Any]:
    """What is read of the weights of all products, likewise."""
    return {
        f"{name.upper()}_AT{number}": value
        for number, product in enumerate(call.products)
        for name, value in parts_of(product.weights).items()
    }


def _tiles(outputs: Sequence[int], form: BlockForm) -> int:
    return sum(math.ceil(size / form.outputs) for size in outputs)


def _form(weights: Blocks, outputs: list[int], rows: int, library: Library) -> BlockForm:
    """How threads share a product: whatever makes the least of its turns one after the other.

    A turn of a thread reads a piece of the row, and one of each of its outputs; where there are
    more threads than a GPU has at once, they come one after the other. Timed on an H100 for the
    products of SmolLM2-135M (`benchmarks/text/gpu.py` lists kernels): 6 to 8 µs each with 32 lanes,
    8 to 20 with 4; its last, of 49,152 outputs, 20 µs with 8 lanes of 4 and 40 with 32 of 1. On an
    H200 (`benchmarks/vulkan/block_tiles.py`) rows of 8,192 by 2,048 outputs take 17.0 µs with 64
    lanes of 2 and 23.5 with 32 of 1, and 14 products of four models 3 % longer in the mean than
    with the best of 36 forms.
    """
    pieces = weights.inner * weights.bits // _PIECE
    room = library.gpu.multiprocessors * _THREADS

    def turns(form: BlockForm) -> float:
        threads = sum(math.ceil(size / form.each) for size in outputs) * rows * form.lanes
        each = 1 + _OUTPUT * form.each
        return math.ceil(pieces / form.lanes) * each * max(1.0, threads / room)

    lanes = (*_LANES, *((_MOST_LANES,) if pieces >= _MOST_LANES else ()))
    forms = [BlockForm(lanes=many, each=each) for each in _EACH for many in lanes]
    return min((form for form in forms if _tiles(outputs, form) <= MOST_GROUPS), key=turns)


def _sizes(weights: Blocks) -> Mapping[str, int]:
    """What the kernel is compiled for."""

    def numbers(word: str, each: Grouped | None) -> dict[str, int]:
        if each is None:
            return {f"{word}_BITS": 0, f"{word}_BY": 0, f"{word}_SHARED": 1}
        by = 0 if each.factor is None else _BITS[each.factor.element]
        own = _BITS[each.element]
        return {f"{word}_BITS": own, f"{word}_BY": by, f"{word}_SHARED": each.shared}

    return {
        "INNER": weights.inner,
        "GROUP": weights.group,
        "BITS": weights.bits,
        "SPAN": weights.span or 2,
        "ZERO_BITS": bits(weights.zero),
        **numbers("SCALE", weights.scale),
        **numbers("LEAST", weights.least),
    }
