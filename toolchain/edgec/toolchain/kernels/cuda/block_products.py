"""Products by weights in blocks to dispatches of the kernels that read the blocks.

A module imported only by a pass that runs; it needs the compiler.
"""

import itertools
import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import unshaped
from edgec.toolchain.ir.weights import is_unchanging
from edgec.toolchain.kernels.cuda.block_choice import choose
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.cuda.products import NOT_SPLIT
from edgec.toolchain.kernels.gpu.block_calls import (
    BlockCall,
    block_calls,
    many_row_calls,
    parts_of,
    place_call,
)
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.block_product import BlockProduct
from edgec.toolchain.match.blocks import Blocks, Grouped

__all__ = ["place_block_products"]

_MOST_SETS = 3
_STEP = 64
"""Weights of an output that are multiplied at a time, at most."""
_ALIGNED = 16
_MOST_ZERO = 128
"""With which codes of 8 bits less their zero are at most 256, the last integer that bf16 has."""
_WARP = 32
_NARROW = (32, 64)
_WIDE = 256
_SHORT = 128
"""Words of a row that is short."""
_SOME, _MANY, _VERY_MANY = 30, 64, 256
"""Outputs for each multiprocessor that keep it busy with programs of fewer warps."""
_PROGRAMS = 4
"""Programs of many warps for each multiprocessor."""
_DIGITS = 32
"""Neighbours of a row that are integers of one scale."""
_OUTPUTS = 16
"""Of a program of the kernel in C."""
_OF_LINE = 192
"""Bytes that the integers of so many neighbours take there, at most."""
_OF_GROUP, _OF_REST = 4, 4096
"""And what belongs to a group, or to all."""
_STAGE = 128
"""Bytes of an output that a warp reads at a time, where it reads on and on."""
_AT_ONCE = 65536
"""And of a program, bytes that are on their way."""
_OF_WARP = 1024
"""And what sums of a warp take, at most."""
_UNEVEN = 1.2
"""How many times as long the busiest multiprocessor may take where all programs run at once.

With products of Llama's sizes on H200s, for a row, in runs of their own: 6,144 outputs of 4,096, of
which some multiprocessors have twice as many programs as others, 8.7 us at once and 6.9 by tile
after tile; 16,384 of 2,048, of which all have as many, 6.0 and 8.1."""
_MANY_WARPS = 16
"""Of a program that has one tile after the other."""
_ON_THEIR_WAY, _MOST_RESIDENT = 32768, 4
"""Bytes of weights that a multiprocessor waits for while earlier kernels run, of so many programs.

Timed on an H200 in two runs of a chain of kernels alone, of layers like Llama-3.2-1B's, which all
asked for the most shared memory: 22.9 and 23.1 us with half as many, 22.3 and 22.9 so, 23.1 and
23.6 with twice as many."""
_STEPS = 4
"""Pairs of blocks that each of its warps multiplies.

Timed likewise: rows of 8,192 by 32 warps, with so many pairs, 22.75 us a layer, by 16 22.99."""
_FEWEST_WARPS, _MOST_WARPS = 8, 32
_PACE = 4
"""Parts of what is on its way: as `block_digits.c` has it."""


def place_block_products(module: Any, library: Library) -> None:
    """Rewrite `module` in place, where a kernel takes a product."""

    def make(call: BlockCall) -> list[Any] | Declined:
        results = _placed(call, library)
        return results if isinstance(results, Declined) else results[: len(call.last)]

    few = block_calls(module, library.answers, lambda product: _MOST_SETS)
    for call in itertools.chain(few, many_row_calls(module, library.answers, _unfit)):
        place_call(call, library.answers, make)


def _placed(call: BlockCall, library: Library) -> list[Any] | Declined:
    """What the kernel that is best for a call gives, or why there is none."""
    if call.has_many_rows:
        return library.call(_many_rows(call, library))
    if _has_digits(call.products[0], library):
        results = library.call(_digits(call, library))
        if not isinstance(results, Declined):
            return results
    return library.call(_few_rows(call, library))


def _has_digits(product: BlockProduct, library: Library) -> bool:
    """Whether rows can be integers by blocks, and enough of these fit a multiprocessor's memory."""
    weights = product.weights
    fits = weights.group % _DIGITS == 0 or (weights.bits, weights.group) == (8, _DIGITS // 2)
    room = weights.inner // _DIGITS * _OF_LINE
    return fits and weights.inner % _DIGITS == 0 and room * 4 <= library.gpu.shared_memory * 3


def _unfit(product: BlockProduct) -> str:
    """Why matrix units do not multiply a product's codes; empty if they do."""
    zero = product.weights.zero
    return "" if zero == int(zero) and abs(zero) <= _MOST_ZERO else f"a zero point of {zero:g}"


def _many_rows(call: BlockCall, library: Library) -> Launch:
    (product,) = call.products
    weights, rows = product.weights, product.rows
    step = math.gcd(weights.group, _STEP)
    choice = choose(library.gpu, (rows, weights.outputs, weights.inner), step)
    split = choice.parts > 1
    f32 = ir.F32Type.get()
    last = ir.RankedTensorType.get([rows, weights.outputs], f32)
    room = choice.tiles * choice.parts * choice.rows * choice.columns
    given = parts_of(weights)
    reads = {"x": product.left, **given}
    reads |= {
        {"scale": "factor"}.get(name, name): value
        for name, value in call.finish.reads(product.left).items()
    }
    numbers = {"m": rows, "n": weights.outputs, "k": weights.inner, "k_part": choice.inside}
    return Launch(
        name=f"block_product_{weights.bits}_{weights.inner}",
        source="block_product",
        grid=(choice.tiles, choice.parts, 1),
        warps=choice.warps,
        stages=choice.stages,
        reads=reads,
        writes={"c": last, **({"work": ir.RankedTensorType.get([room], f32)} if split else {})},
        numbers=numbers,
        folded=call.finish.folded,
        constants={
            **{name: None for name in ("scale_by", "least", "least_by") if name not in given},
            **{"BM": choice.rows, "BN": choice.columns, "STEP": step},
            **{"BITS": weights.bits, "SPAN": weights.span or 2, "GROUP": weights.group},
            **{"SCALES": weights.scale.shared, "LEASTS": _shared(weights.least)},
            **{"ZERO": weights.zero, "SPLIT": split},
            "PIECES": 3 if library.precision == "tf32x3" else 2,
            **({} if split else NOT_SPLIT),
        },
        multiples={"k": _ALIGNED, "k_part": _ALIGNED},
        counters=choice.tiles if split else 0,
    )


def _digits(call: BlockCall, library: Library) -> Launch:
    """Of few rows, by the kernel in C."""
    first = call.products[0]
    weights = first.weights
    tiled = _outputs(call)[:1] if call.gate else _outputs(call)
    at_once, in_turns = _resident(call, library)
    many = _tiles(tiled, 1) > at_once
    # Programs of two tiles read a row half as often, and each multiprocessor has two of them still.
    is_high = not many and _tiles(tiled, 1) > 2 * library.gpu.multiprocessors
    high = 2 if is_high else 1
    tiles = _tiles(tiled, high)
    single = _tiles(tiled, 1)
    is_uneven = _waste(tiles, library) > _UNEVEN * _waste(single, library)
    stream = _stream(call, library, single) if many or is_uneven else None
    if stream is not None:
        return stream
    steps = weights.inner // (2 * _DIGITS) * high / _STEPS
    warps = 1 << max(0, math.ceil(math.log2(steps)))
    warps = max(_FEWEST_WARPS, min(_MANY_WARPS if many else _MOST_WARPS, warps))
    return _of_few_rows(
        call,
        source="block_digits",
        grid=(min(tiles, in_turns) if many else tiles, 1, 1),
        warps=warps,
        form={
            **{"SHARED_BYTES": library.gpu.shared_memory, "WARPS": warps, "MANY": many},
            **{"TILES": high, "AHEAD": _ahead(tiles, library)},
        },
    )


def _waste(programs: int, library: Library) -> float:
    """How many times as long as on the average multiprocessor programs take on the busiest."""
    each = programs / library.gpu.multiprocessors
    return math.ceil(each) / each


def _stream(call: BlockCall, library: Library, tiles: int) -> Launch | None:
    """The same by programs that have one tile after the other, whose warps read on and on; None:
    rows are not in whole stages, or there is no room for them."""
    first = call.products[0]
    weights, gpu = first.weights, library.gpu
    deep = _STAGE * 8 // weights.bits
    parts = [name for each in call.products for name in parts_of(each.weights)]
    if "scale_by" in parts or "least_by" in parts:
        return None
    if weights.inner % deep or deep % weights.group:
        return None
    units = weights.inner // deep
    # What leaves the fewest warps without work in the last of their turns, and has the most warps.
    many = range(_FEWEST_WARPS, _MANY_WARPS + 1)
    warps = min(many, key=lambda warps: (math.ceil(units / warps) * warps, -warps))
    stages = 1 + math.ceil(_AT_ONCE / (warps * _OUTPUTS * _STAGE))
    numbers = [weights.scale, *([] if weights.least is None else [weights.least])]
    of_group = sum(int(each.element.strip("bfi")) // 8 for each in numbers)
    each = _OUTPUTS * (_STAGE + _ALIGNED + deep // weights.group * of_group)
    # What belongs to a block takes 8 bytes, or 16 a group, for digits of each parity.
    groups = math.ceil(_DIGITS / weights.group)
    fact = 16 * groups if weights.least is not None or groups > 1 else 8
    of_line = 4 * _DIGITS + 2 * fact
    rest = weights.inner // _DIGITS * of_line * min(first.rows, 2) + warps * _OF_WARP
    if rest + stages * warps * each > gpu.shared_memory:
        return None
    return _of_few_rows(
        call,
        source="block_stream",
        grid=(min(tiles, gpu.multiprocessors), 1, 1),
        warps=warps,
        form={"WARPS": warps, "STAGES": stages},
    )


def _ahead(tiles: int, library: Library) -> int:
    """Pieces that a program of the kernel in C has on their way while earlier kernels run."""
    here = min(_MOST_RESIDENT, math.ceil(tiles / library.gpu.multiprocessors))
    return _WARP * max(1, _ON_THEIR_WAY // (_PACE * _WARP * _ALIGNED * here))


def _tiles(outputs: list[int], high: int) -> int:
    """Programs of the kernel in C, each of so many tiles of an output."""
    return sum(math.ceil(size / (_OUTPUTS * high)) for size in outputs)


def _resident(call: BlockCall, library: Library) -> tuple[int, int]:
    """How many programs of the kernel in C run at a time, with one tile each and with more."""
    first = call.products[0]
    weights, gpu = first.weights, library.gpu
    blocks = weights.inner // _DIGITS
    tile = _OUTPUTS * (blocks * (_DIGITS * weights.bits // 8) + weights.groups * _OF_GROUP)
    tile *= 2 if call.gate else 1
    rest = blocks * _OF_LINE * min(first.rows, 2) + _OF_REST
    one, more = (max(1, gpu.shared_memory // (rest + n * tile)) for n in (1, 2))
    return one * gpu.multiprocessors, more * gpu.multiprocessors


def _few_rows(call: BlockCall, library: Library) -> Launch:
    """Of few rows, by the kernel in Triton."""
    first = call.products[0]
    weights = first.weights
    tiled = _outputs(call)[:1] if call.gate else _outputs(call)
    sums = 2 if call.gate else 1
    rows, words, warps = _tile(sum(tiled) * first.rows, sums, weights, library)
    return _of_few_rows(
        call,
        source="block_rows",
        grid=(sum(math.ceil(size / rows) for size in tiled), first.rows, 1),
        warps=warps,
        form={"BN": rows, "BW": words, "EVEN": weights.inner * weights.bits // 32 % words == 0},
    )


def _outputs(call: BlockCall) -> list[int]:
    return [each.weights.outputs for each in call.products]


def _of_few_rows(
    call: BlockCall,
    *,
    source: str,
    grid: tuple[int, int, int],
    warps: int,
    form: dict[str, Any],
) -> Launch:
    """A call of a kernel for few rows, whose constants beside those of all such are `form`."""
    norm = call.norm
    first = call.products[0]
    weights = first.weights
    single = len(call.products) == 1
    x = first.left if norm is None else norm.source
    outputs = _outputs(call)
    reads: dict[str, Any] = {"x": x}
    constants: dict[str, Any] = {}
    writes: dict[str, Any] = {}
    if norm is not None and norm.scale is not None:
        reads["norm"] = norm.scale.value
    else:
        constants["norm"] = None
    if single:
        reads |= {
            {"scale": "factor"}.get(name, name): value
            for name, value in call.finish.reads(x).items()
        }
    else:
        constants |= {"bias": None, "factor": None, "other": None}
    for number in range(_MOST_SETS):
        given = parts_of(call.products[number].weights) if number < len(call.products) else {}
        for name in ("codes", "scale", "scale_by", "least", "least_by"):
            value = given.get(name)
            (constants if value is None else reads)[f"{name}{number}"] = value
        if number < len(call.last):
            kind = ir.RankedTensorType.get([first.rows, outputs[number]], ir.F32Type.get())
            writes[f"c{number}"] = kind
        else:
            constants[f"c{number}"] = None
    early = [value for each in call.products for value in parts_of(each.weights).values()]
    early += [reads["norm"]] if "norm" in reads else []
    numbers = {f"outputs{n}": size for n, size in enumerate(outputs)}
    constants |= {f"outputs{n}": 0 for n in range(len(outputs), _MOST_SETS)}
    return Launch(
        name=f"{source}_{weights.bits}_{weights.inner}",
        source=source,
        grid=grid,
        warps=warps,
        stages=2,
        reads=reads,
        writes=writes,
        numbers={**numbers, "eps_bits": 0 if norm is None else bits(norm.epsilon)},
        folded={"rows": first.rows, "inner": weights.inner, **call.after},
        # Of all that a kernel reads before those that compute its row have ended, not codes alone.
        ahead=all(is_unchanging(unshaped(value)) for value in early),
        constants={
            **constants,
            **form,
            **{"BITS": weights.bits, "SPAN": weights.span or 2},
            **{"GROUP": weights.group, "ZERO": weights.zero},
            **{"SCALES": weights.scale.shared, "LEASTS": _shared(weights.least)},
            **{"SETS": len(call.products), "GATED": call.gate},
            "NORMED": 0 if norm is None else 2 if norm.scale is None else 1,
        },
    )


def _tile(outputs: int, sums: int, weights: Blocks, library: Library) -> tuple[int, int, int]:
    """Outputs of a program, words that it reads of each at once, and its warps.

    Where there are many, or rows are short, programs of a warp fill a multiprocessor, and a thread
    with more outputs reads the row less often. Where there are fewer, a program reads as much of a
    row at once as it has threads, so that most of a matrix is on its way at a time, and has as many
    outputs as leave each multiprocessor four programs; with a gate half as many, since each has
    `sums` of two.

    Timed on an H200, of 18 products of SmolLM2-135M's, Qwen3-0.6B's and Llama-3.2's of 1B and 3B
    with their norms and gates, and of 12 without (`benchmarks/cuda/block_tiles.py`): it takes 6 and
    4 % longer in the mean than the best of 21 and 14 tiles.
    """
    words = weights.inner * weights.bits // 32
    each = outputs / library.gpu.multiprocessors
    if each * sums >= _MANY:
        wide = min(_NARROW, key=lambda n: (math.ceil(words / n) * n, -n))
        return (8 if sums > 1 or each >= _VERY_MANY else 4), wide, 1
    if words <= _SHORT:
        return (2, _SHORT, _SHORT // _WARP) if sums > 1 else (2, _WARP, 1)
    if sums == 1 and each >= _SOME:
        return 4, _SHORT, _SHORT // _WARP
    tall = 2 ** round(math.log2(max(1.0, each / _PROGRAMS)))
    return min(8, max(2, tall // sums)), _WIDE, _WIDE // _WARP


def _shared(numbers: Grouped | None) -> int:
    return 1 if numbers is None else numbers.shared
