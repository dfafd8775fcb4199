"""Products by weights in blocks, and those of few rows that one dispatch of a GPU does together.

Products of the same few rows go into one dispatch, with the norm before them where it is theirs,
and a gate with what it is multiplied with: a token costs as many dispatches as it has steps that
wait for each other. Each product of many rows has a dispatch of its own.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import unshaped
from edgec.toolchain.ir.uses import only_use
from edgec.toolchain.ir.weights import is_unchanging
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import Finish, find_finish
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.block_product import BlockProduct, read_block_product
from edgec.toolchain.match.blocks import Blocks, Grouped
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.norm import ROOTS, Norm, NotANorm, find_norms

__all__ = [
    "MOST_ROWS",
    "BlockCall",
    "block_calls",
    "many_row_calls",
    "parts_of",
    "place_call",
    "said_of_floats",
]

MOST_ROWS = 8
"""Of few rows, each of which reads all blocks; beyond, tiles of rows share what they read."""
_BYTES = 16
"""Of codes that lie together, at least."""
_BROKEN = 4
"""A span in which the halves of four bytes are no runs of four."""
_FLOATS = ("f16", "f32")
_STEPS_TO_ROOT = 16
_NAME = "product by blocks"


@dataclass(frozen=True, kw_only=True)
class BlockCall:
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

    @property
    def has_many_rows(self) -> bool:
        """Whether it is a product of more than `MOST_ROWS` rows, alone then."""
        return self.products[0].rows > MOST_ROWS

    @property
    def norm(self) -> Norm | None:
        """The norm by the mean square that its rows are, if the kernel can take it along."""
        return _norm(self.products[0])

    @property
    def after(self) -> dict[str, int]:
        """What follows, as the kernels' numbers: nothing but of a single product."""
        folded = self.finish.folded
        return folded if len(self.products) == 1 else dict.fromkeys(folded, 0)


def block_calls(
    module: Any,
    answers: Answers,
    most: Callable[[BlockProduct], int],
    unfit: Callable[[BlockProduct], str] = lambda product: "",
) -> Iterator[BlockCall]:
    """What may be dispatched, one call after the other; each is placed before the next.

    Nothing is kept of one call for the next, which reads what the one before has put there.

    Args:
        module: the `ir.Module`; its `dot_general`s are read.
        answers: where it is kept why a product by blocks is not among them.
        most: how many products like one a dispatch takes; 1 for no two together.
        unfit: why a device's kernel does not take a product, beside what no kernel takes.
    """
    left = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]

    def why(product: BlockProduct) -> str:
        return _unfit(product) or unfit(product)

    while left:
        op = left.pop(0)
        found = read_block_product(op)
        if found is None or found.rows > MOST_ROWS:
            continue
        reason = why(found)
        if reason:
            answers.record(op, str(found), found.work, Declined(reason=reason))
            continue
        call = _call(found, left, answers, most(found), why)
        left = [
            each for each in left if all(each != p.value.owner.operation for p in call.products)
        ]
        yield call


def many_row_calls(
    module: Any, answers: Answers, unfit: Callable[[BlockProduct], str] = lambda product: ""
) -> Iterator[BlockCall]:
    """The products of more rows, one by one; each is placed before the next.

    Args:
        module, answers, unfit: see `block_calls`.
    """
    for op in [each for each in inside(module.operation) if each.name == "stablehlo.dot_general"]:
        found = read_block_product(op)
        if found is None or found.rows <= MOST_ROWS:
            continue
        reason = _unfit(found) or unfit(found)
        if reason:
            answers.record(op, str(found), found.work, Declined(reason=reason))
            continue
        finish = _finish(found, answers)
        place = finish.last.owner.operation
        yield BlockCall(products=(found,), finish=finish, last=(finish.last,), place=place)


def said_of_floats(module: Any, most_filled: int) -> Iterator[str]:
    """What weights in blocks cost a device where no kernel reads them for products of many rows.

    Args:
        module: the program, after products by blocks are placed.
        most_filled: bytes by which what is made at load may be larger than its weights; what is
            larger still is made in each call.
    """
    at_load: dict[Any, int] = {}
    in_calls: dict[Any, int] = {}
    for op in inside(module.operation):
        found = read_block_product(op) if op.name == "stablehlo.dot_general" else None
        if found is None or found.rows <= MOST_ROWS:
            continue
        weights = found.weights
        codes = unshaped(weights.codes)
        size = 4 * weights.outputs * weights.inner
        more = size - weights.outputs * weights.inner * weights.bits // 8
        if is_unchanging(codes):
            (at_load if more <= most_filled else in_calls)[_source(codes)] = size
    how = f"products of more than {MOST_ROWS} rows, a prompt's say, read"
    instead = f"`edgec export --prefill={MOST_ROWS}` reads prompts from the blocks, more slowly"
    if at_load:
        room = sum(at_load.values()) / 2**20
        yield (
            f"{how} {_weights(at_load)} in blocks as f32, which take {room:,.1f} MiB beside the "
            f"blocks on the device; {instead}"
        )
    if in_calls:
        yield f"{how} {_weights(in_calls)} in blocks as f32, written out in each call; {instead}"


def _weights(found: Collection[Any]) -> str:
    return f"{len(found)} weight{'s' * (len(found) != 1)}"


def _source(codes: Any) -> Any:
    """What weights come from, the same for all functions: a global's name, or a constant."""
    op = codes.owner.operation
    name = "global" if "global" in op.attributes else "value"
    return str(op.attributes[name]) if name == "global" else op.attributes[name]


def place_call(call: BlockCall, answers: Answers, make: Callable[[BlockCall], Any]) -> None:
    """Put a kernel in the place of a call's products, or say why there is none.

    Args:
        call: the products.
        answers: where that is said.
        make: dispatches the kernel of a call at the insertion point: a tensor for each of
            `call.last`, or a `Declined`.
    """
    for each in call.products:
        validate(each, "product by blocks")
    with ir.InsertionPoint(call.place), call.place.location:
        results = make(call)
        for each in call.products:
            outcome = results if isinstance(results, Declined) else Kernel(name=_NAME)
            answers.record(each.value.owner.operation, str(each), each.work, outcome)
        if isinstance(results, Declined):
            return
        for old, new in zip(call.last, results, strict=True):
            replace(old, new)


def parts_of(weights: Blocks) -> dict[str, Any]:
    """What a kernel reads of weights, by its parameters."""
    found = {"codes": weights.codes, "scale": weights.scale.value}
    if weights.scale.factor is not None:
        found["scale_by"] = weights.scale.factor.value
    if weights.least is not None:
        found["least"] = weights.least.value
        if weights.least.factor is not None:
            found["least_by"] = weights.least.factor.value
    return found


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


def _call(
    one: BlockProduct,
    left: Sequence[Any],
    answers: Answers,
    most: int,
    why: Callable[[BlockProduct], str],
) -> BlockCall:
    """A product and those behind it, if any, that its dispatch can do as well."""
    finish, here = _finish(one, answers), one.value.owner.operation
    beside = left if most > 1 else ()
    others = [each for op in beside if (each := _beside(one, op, why)) is not None]
    for other in others:
        for gated, plain in ((one, other), (other, one)):
            product = _gated(_finish(gated, answers), _finish(plain, answers))
            if product is not None:
                gate = _finish(gated, answers).what >> 8
                return BlockCall(
                    products=(gated, plain), finish=finish, gate=gate, last=(product,), place=here
                )
    products = [one]
    if _is_plain(finish):
        products += [each for each in others if _is_plain(_finish(each, answers))]
    products = products[:most]
    if len(products) == 1:
        place = finish.last.owner.operation
        return BlockCall(products=(one,), finish=finish, last=(finish.last,), place=place)
    last = tuple(each.value for each in products)
    return BlockCall(products=tuple(products), finish=finish, last=last, place=here)


def _finish(product: BlockProduct, answers: Answers) -> Finish:
    """What follows a product in its kernel."""
    outputs = product.weights.outputs
    return find_finish(product.value, ir.F32Type.get(), outputs, answers)


def _beside(one: BlockProduct, op: Any, why: Callable[[BlockProduct], str]) -> BlockProduct | None:
    """The product that `op` is, if it has the same rows, and all it reads is there before `one`."""
    here = one.value.owner.operation
    if op.block != here.block or unshaped(op.operands[0]) != unshaped(one.left):
        return None
    other = read_block_product(op)
    if other is None or why(other) or _kind(one.weights) != _kind(other.weights):
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
