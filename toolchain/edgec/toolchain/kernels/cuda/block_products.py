"""Products of few rows by weights in blocks to dispatches of the kernel that reads the blocks.

Products of the same rows go into one dispatch, with the norm before them where it is theirs, and a
gate with what it is multiplied with: a token costs as many dispatches as it has steps that wait for
each other.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import unshaped
from edgec.toolchain.ir.uses import only_use
from edgec.toolchain.ir.weights import is_unchanging
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.gpu.tails import Finish, find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.block_product import BlockProduct, read_block_product
from edgec.toolchain.match.blocks import Blocks, Grouped
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import ROOTS, Norm, NotANorm, find_norms

__all__ = ["MOST_ROWS", "place_block_products"]

MOST_ROWS = 8
"""Rows beyond which weights pay to be written out as f32: each row reads all blocks."""
_MOST_SETS = 3
_BYTES = 16
"""Of codes that lie together, at least."""
_BROKEN = 4
"""A span in which the halves of four bytes are no runs of four."""
_FLOATS = ("f16", "f32")
_WARP = 32
_NARROW = (32, 64)
_WIDE = (128, 256)
_SHORT = 128
"""Words of a row that is short."""
_STEPS_TO_ROOT = 16
_NAME = "product by blocks"


@dataclass(frozen=True, kw_only=True)
class _Call:
    """Products that one dispatch does.

    Attributes:
        products: of the same rows, by blocks of one kind.
        finish: what follows the only one of them.
        gate: the number of the activation of the first, which is multiplied by the second.
        last: the values that are stored.
        place: the operation before which it stands: several products go where the first of them
            is, one where its tail ends.
    """

    products: tuple[BlockProduct, ...]
    finish: Finish
    gate: int = 0
    last: tuple[Any, ...]
    place: Any


def place_block_products(module: Any, library: Library) -> None:
    """Rewrite `module` in place, where the kernel takes a product."""
    left = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]
    while left:
        op = left.pop(0)
        found = read_block_product(op)
        if found is None or found.rows > MOST_ROWS:
            continue
        reason = _unfit(found)
        if reason:
            library.answers.record(op, str(found), found.work, Declined(reason=reason))
            continue
        # Nothing is kept of one call for the next, which reads what the one before has put there.
        call = _call(found, left, library)
        left = [
            each for each in left if all(each != p.value.owner.operation for p in call.products)
        ]
        _place(call, library)


def _unfit(found: BlockProduct) -> str:
    """Why the kernel does not take a product; empty if it does."""
    weights = found.weights
    piece = _BYTES * 8 // weights.bits
    if set(found.elements) != {"f32"}:
        return f"activations of {found.elements[0]}"
    if weights.inner % piece or weights.group % piece:
        return f"{weights} of {weights.inner} neighbours"
    if weights.bits == 4 and (piece % weights.span or weights.span == _BROKEN):
        return f"halves of bytes {weights.span // 2} weights apart"
    for each in (weights.scale, weights.least):
        if each is None:
            continue
        if not each.in_order(weights.outputs, weights.groups):
            return "scales in another order than the weights"
        floats = each if each.factor is None else each.factor
        if floats.element not in _FLOATS:
            return f"scales of {floats.element}"
    largest = max(math.prod(shape(value)) for value in (*found.operands, found.value))
    return "2^31 elements or more" if largest >= 2**31 else ""


def _call(one: BlockProduct, left: Sequence[Any], library: Library) -> _Call:
    """A product and those behind it, if any, that its dispatch can do as well."""
    finish, here = _finish(one, library), one.value.owner.operation
    others = [each for op in left if (each := _beside(one, op)) is not None]
    for other in others:
        for gated, plain in ((one, other), (other, one)):
            product = _gated(_finish(gated, library), _finish(plain, library))
            if product is not None:
                gate = _finish(gated, library).what >> 8
                return _Call(
                    products=(gated, plain), finish=finish, gate=gate, last=(product,), place=here
                )
    products = [one]
    if _is_plain(finish):
        products += [each for each in others if _is_plain(_finish(each, library))]
    products = products[:_MOST_SETS]
    if len(products) == 1:
        place = finish.last.owner.operation
        return _Call(products=(one,), finish=finish, last=(finish.last,), place=place)
    last = tuple(each.value for each in products)
    return _Call(products=tuple(products), finish=finish, last=last, place=here)


def _finish(product: BlockProduct, library: Library) -> Finish:
    """What follows a product in its kernel."""
    outputs = product.weights.outputs
    return find_finish(product.value, ir.F32Type.get(), outputs, library.answers)


def _beside(one: BlockProduct, op: Any) -> BlockProduct | None:
    """The product that `op` is, if it has the same rows, and all it reads is there before `one`."""
    here = one.value.owner.operation
    if op.block != here.block or unshaped(op.operands[0]) != unshaped(one.left):
        return None
    other = read_block_product(op)
    if other is None or _unfit(other) or _kind(one.weights) != _kind(other.weights):
        return None
    owners = [value.owner for value in other.operands]
    own = [owner.operation for owner in owners if not isinstance(owner, ir.Block)]
    near = [owner for owner in own if owner.block == here.block]
    return other if all(owner.is_before_in_block(here) for owner in near) else None


def _is_plain(finish: Finish) -> bool:
    """Whether nothing follows a product but what moves no element."""
    return bool(unshaped(finish.last) == finish.total)


def _gated(finish: Finish, other: Finish) -> Any | None:
    """The product of a gated value and another one, if neither is used for anything else."""
    after = (finish.bias, finish.scale, finish.other, finish.clip)
    use, second = only_use(finish.last), only_use(other.last)
    if finish.gate is None or any(each is not None for each in after) or not _is_plain(other):
        return None
    if use is None or second is None or use.owner.operation != second.owner.operation:
        return None
    op = use.owner.operation
    return op.results[0] if op.name == "stablehlo.multiply" else None


def _norm(product: BlockProduct) -> Norm | None:
    """The norm by the mean square that its rows are, if the kernel can take it along."""
    value = unshaped(product.left)
    for root in _roots(value):
        found = find_norms(root)
        if found is None or isinstance(found, NotANorm):
            continue
        for norm in found:
            if norm.value != value or norm.mean or norm.shift is not None:
                continue
            values = [norm.source, norm.value, *([norm.scale.value] if norm.scale else [])]
            whole = norm.scale is None or norm.scale.axes == norm.summed
            floats = all(str(each.type.element_type) == "f32" for each in values)
            if whole and floats and norm.rows == (product.rows, product.weights.inner):
                return norm
    return None


def _roots(value: Any) -> Iterator[Any]:
    """Roots a few operations before a value."""
    values, seen = [value], 0
    while values and seen < _STEPS_TO_ROOT:
        value, seen = values.pop(0), seen + 1
        if isinstance(value.owner, ir.Block):
            continue
        op = value.owner.operation
        if op.name in ROOTS:
            yield op
        elif op.name.startswith("stablehlo."):
            values += list(op.operands)


def _kind(weights: Blocks) -> tuple[Any, ...]:
    """All of weights that the kernel is compiled for."""

    def numbers(each: Grouped | None) -> tuple[Any, ...]:
        if each is None:
            return ()
        return (each.element, each.shared, "" if each.factor is None else each.factor.element)

    kinds = (numbers(weights.scale), numbers(weights.least))
    return (weights.bits, weights.span, weights.inner, weights.group, weights.zero, *kinds)


def _place(call: _Call, library: Library) -> None:
    """Put the kernel in the place of a call's products, or say why there is none."""
    for each in call.products:
        validate(each, "product by blocks")
    with ir.InsertionPoint(call.place), call.place.location:
        results = library.call(_launch(call, _norm(call.products[0]), library))
        for each in call.products:
            outcome = results if isinstance(results, Declined) else Kernel(name=_NAME)
            library.answers.record(each.value.owner.operation, str(each), each.work, outcome)
        if isinstance(results, Declined):
            return
        for old, new in zip(call.last, results, strict=True):
            replace(old, new)


def _launch(call: _Call, norm: Norm | None, library: Library) -> Launch:
    first = call.products[0]
    weights = first.weights
    single = len(call.products) == 1
    x = first.left if norm is None else norm.source
    outputs = [each.weights.outputs for each in call.products]
    tiled = outputs[:1] if call.gate else outputs
    rows, words, warps = _tile(sum(tiled) * first.rows, weights, library)
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
        given = _parts(call.products[number].weights) if number < len(call.products) else {}
        for name in ("codes", "scale", "scale_by", "least", "least_by"):
            value = given.get(name)
            (constants if value is None else reads)[f"{name}{number}"] = value
        if number < len(call.last):
            kind = ir.RankedTensorType.get([first.rows, outputs[number]], ir.F32Type.get())
            writes[f"c{number}"] = kind
        else:
            constants[f"c{number}"] = None
    numbers = {f"outputs{n}": size for n, size in enumerate(outputs)}
    constants |= {f"outputs{n}": 0 for n in range(len(outputs), _MOST_SETS)}
    after = call.finish.folded if single else dict.fromkeys(call.finish.folded, 0)
    return Launch(
        name=f"block_rows_{weights.bits}_{weights.inner}",
        source="block_rows",
        grid=(sum(math.ceil(size / rows) for size in tiled), first.rows, 1),
        warps=warps,
        stages=2,
        reads=reads,
        writes=writes,
        numbers={**numbers, "eps_bits": 0 if norm is None else bits(norm.epsilon)},
        folded={"rows": first.rows, "inner": weights.inner, **after},
        ahead=all(is_unchanging(unshaped(each.weights.codes)) for each in call.products),
        constants={
            **constants,
            **{"BN": rows, "BW": words, "BITS": weights.bits, "SPAN": weights.span or 2},
            **{"GROUP": weights.group, "ZERO": weights.zero},
            **{"SCALES": weights.scale.shared, "LEASTS": _shared(weights.least)},
            **{"SETS": len(call.products), "GATED": call.gate},
            "NORMED": 0 if norm is None else 2 if norm.scale is None else 1,
            "EVEN": weights.inner * weights.bits // 32 % words == 0,
        },
    )


def _tile(outputs: int, weights: Blocks, library: Library) -> tuple[int, int, int]:
    """Outputs of a program, words that it reads of each at once, and its warps.

    Where there are few outputs, a program reads much of a row at once, so that most of a matrix is
    on its way at a time; if rows are short, programs do with a warp, which adds its sums up alone.
    Where there are many, other programs of a multiprocessor see to that, and a thread with more
    outputs reads the row less often. Timed on an H100 for SmolLM2-135M's and Llama-3.2-1B's sizes.
    """
    words = weights.inner * weights.bits // 32
    if outputs >= library.gpu.multiprocessors * 4 * 8:
        return 8, min(_NARROW, key=lambda n: (math.ceil(words / n) * n, -n)), 1
    if words <= _SHORT:
        return 2, _WARP, 1
    wide = _WIDE[0] if words <= 2 * _WIDE[0] else _WIDE[1]
    return 4, wide, min(4, wide // _WARP)


def _parts(weights: Blocks) -> dict[str, Any]:
    """What the kernel reads of weights, by its parameters."""
    found = {"codes": weights.codes, "scale": weights.scale.value}
    if weights.scale.factor is not None:
        found["scale_by"] = weights.scale.factor.value
    if weights.least is not None:
        found["least"] = weights.least.value
        if weights.least.factor is not None:
            found["least_by"] = weights.least.factor.value
    return found


def _shared(numbers: Grouped | None) -> int:
    return 1 if numbers is None else numbers.shared
