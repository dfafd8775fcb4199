"""Softmax between two products of a batch to a dispatch of the attention kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import struct
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, numbers_of
from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined

__all__ = ["rewrite_attention"]

_ELEMENTS = ("f16", "bf16", "f32")
_WIDTHS = (32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class _View:
    """Where element (batch, head, row, i) lies: at `start` + the four by their steps."""

    value: Any
    start: int
    steps: tuple[int, int, int]


def rewrite_attention(op: Any, library: Library) -> None:
    """Replace `op` by a kernel if it is the second product of softmax(Q K^T * scale) V."""
    found = _scores(op)
    if found is None:
        return
    first, scale = found
    q, k = first.operands
    v = op.operands[1]
    element = v.type.element_type
    if str(element) not in _ELEMENTS or any(x.type.element_type != element for x in (q, k)):
        return
    if op.results[0].type.element_type != element:
        return
    if not _is_batched(first, inner=(-1, -1)) or not _is_batched(op, inner=(-1, -2)):
        return
    *outer, queries, wide = shape(q)
    keys = shape(k)[-2]
    if wide not in _WIDTHS or shape(v)[-1] != wide or len(outer) not in (1, 2) or not scale:
        return
    views = [_view(x) for x in (q, k, v)]
    batch, heads = (1, outer[0]) if len(outer) == 1 else outer
    last, order = _turned(op.results[0], len(outer))
    sizes = {"b": batch, "h": heads, "r": queries}
    steps: dict[str, int] = {}
    count = wide
    for letter in reversed(order):
        steps[letter] = count
        count *= sizes[letter]
    rows = 64 if heads * batch * math.ceil(queries / 64) >= library.gpu.multiprocessors else 16
    out = ir.RankedTensorType.get([count], element)
    bits = struct.unpack("<i", struct.pack("<f", scale))[0]
    places = {f"{name}_at": view.start for name, view in zip("qkv", views, strict=True)}
    for axis, (letter, word) in enumerate(zip("bhr", ("batch", "head", "row"), strict=True)):
        for name, view in zip("qkv", views, strict=True):
            places[f"{name}_{word}"] = view.steps[axis]
        places[f"o_{word}"] = steps.get(letter, 0)
    if any(n % 8 for n in places.values()) or max(queries, keys, *places.values()) >= 2**31:
        return
    with ir.InsertionPoint(last.owner.operation):
        results = library.call(
            Launch(
                name=f"attention_{wide}_{rows}_{element}",
                source="attention",
                grid=(math.ceil(queries / rows), heads, batch),
                warps=4 if rows == 64 else 1,
                stages=2,
                reads={name: view.value for name, view in zip("qkv", views, strict=True)},
                writes={"o": out},
                numbers={"queries": queries, "keys": keys, "scale_bits": bits, **places},
                folded={"share": 1},
                constants={"BM": rows, "BN": 64, "D": wide, "PRECISION": "tf32x3"},
                multiples=dict.fromkeys(places, 8),
            )
        )
        if not isinstance(results, Declined):
            replace(last, results[0])


def _scores(op: Any) -> tuple[Any, float] | None:
    """The product whose scaled softmax is the left side of `op`, and the scale."""
    shares = _behind(op.operands[0], "stablehlo.convert")
    if _name(shares) != "stablehlo.divide":
        return None
    powers, sums = shares.owner.operation.operands
    if _name(powers) != "stablehlo.exponential":
        return None
    total = _reduced(sums, "stablehlo.add")
    shifted = powers.owner.operation.operands[0]
    if total is None or _behind(total, "stablehlo.convert") != powers:
        return None
    if _name(shifted) != "stablehlo.subtract":
        return None
    scores, most = shifted.owner.operation.operands
    if _reduced(most, "stablehlo.maximum") != scores:
        return None
    scale = 1.0
    value = scores
    while True:
        name = _name(value)
        if name == "stablehlo.convert":
            value = value.owner.operation.operands[0]
        elif name in ("stablehlo.multiply", "stablehlo.divide"):
            left, right = value.owner.operation.operands
            number = splat(right)
            if number is None and name == "stablehlo.multiply":
                left, right = right, left
                number = splat(right)
            if number is None or number == 0:
                return None
            scale = scale * number if name == "stablehlo.multiply" else scale / number
            value = left
        elif name == "stablehlo.dot_general":
            return value.owner.operation, scale
        else:
            return None


def _name(value: Any) -> str:
    return "" if isinstance(value.owner, ir.Block) else str(value.owner.operation.name)


def _behind(value: Any, *names: str) -> Any:
    """The value before operations of these names."""
    while _name(value) in names:
        value = value.owner.operation.operands[0]
    return value


def _reduced(value: Any, body: str) -> Any | None:
    """What a value is the reduction of along the last axis, broadcast back; None if it is not."""
    rank = value.type.rank
    while True:
        name = _name(value)
        op: Any = value.owner.operation if name else None
        if name == "stablehlo.convert":
            value = op.operands[0]
        elif name == "stablehlo.reshape":
            if shape(value) != (*shape(op.operands[0]), 1):
                return None
            value = op.operands[0]
        elif name == "stablehlo.broadcast_in_dim":
            if integers(op, "broadcast_dimensions") != list(range(op.operands[0].type.rank)):
                return None
            value = op.operands[0]
        elif name == "stablehlo.maximum" and _lowest(op.operands[0]):
            value = op.operands[1]
        elif name == "stablehlo.maximum" and _lowest(op.operands[1]):
            value = op.operands[0]
        elif name == "stablehlo.reduce":
            inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
            if inner != [body, "stablehlo.return"] or len(op.operands) != 2:
                return None
            start = op.operands[1]
            if not (_lowest(start) if body == "stablehlo.maximum" else splat(start) == 0):
                return None
            return op.operands[0] if integers(op, "dimensions") == [rank - 1] else None
        else:
            return None


def _lowest(value: Any) -> bool:
    number = splat(value)
    return number is not None and number < -1e4


def _is_batched(op: Any, inner: tuple[int, int]) -> bool:
    """Whether a product has all axes but two as its batch, and sums over these (from the end)."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    rank = op.operands[0].type.rank
    order = list(range(rank - 2))
    return (
        op.operands[1].type.rank == rank
        and numbers.get("lhs_batching_dimensions", []) == order
        and numbers.get("rhs_batching_dimensions", []) == order
        and numbers.get("lhs_contracting_dimensions", []) == [rank + inner[0]]
        and numbers.get("rhs_contracting_dimensions", []) == [rank + inner[1]]
        and all(v.type.has_static_shape for v in (*op.operands, *op.results))
    )


def _view(value: Any) -> _View:
    """A value of [batch,] heads, rows, width as steps into what it was cut and turned from."""
    sizes = list(shape(value))
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    plain = _padded(value, 0, steps)
    if _name(value) != "stablehlo.transpose":
        return plain
    op = value.owner.operation
    order = integers(op, "permutation")
    if order[-1] != len(order) - 1:
        return plain
    source = op.operands[0]
    under = list(shape(source))
    laid = [math.prod(under[axis + 1 :]) for axis in range(len(under))]
    steps = [laid[axis] for axis in order]
    start = 0
    if _name(source) == "stablehlo.reshape":
        whole = source.owner.operation.operands[0]
        if _name(whole) == "stablehlo.slice":
            # Heads cut out of rows that hold queries, keys and values side by side: the rows of
            # `whole` are as long as before the slice, and nothing else changes.
            cut = whole.owner.operation
            base = cut.operands[0]
            rows, held = math.prod(shape(whole)[:-1]), shape(whole)[-1]
            starts, strides = integers(cut, "start_indices"), integers(cut, "strides")
            axis = next((i for i, n in enumerate(laid) if n < held), len(laid))
            fits = (
                shape(whole)[:-1] == shape(base)[:-1]
                and set(strides) == {1}
                and math.prod(under[:axis]) == rows
                and math.prod(under[axis:]) == held
            )
            if fits:
                stretch = shape(base)[-1]
                laid = [n if n < held else n // held * stretch for n in laid]
                return _padded(base, starts[-1], [laid[axis] for axis in order])
        source = whole if math.prod(shape(whole)) == math.prod(under) else source
    return _padded(source, start, steps)


def _padded(value: Any, start: int, steps: list[int]) -> _View:
    batch, head, row = ([0] * (4 - len(steps)) + steps)[:3]
    return _View(value=value, start=start, steps=(batch, head, row))


def _turned(value: Any, outer: int) -> tuple[Any, str]:
    """The value to store, and the order of its axes before the last, by letter."""
    plain = "hr" if outer == 1 else "bhr"
    uses = list(value.uses)
    if len(uses) == 1 and uses[0].owner.operation.name == "stablehlo.transpose":
        op = uses[0].owner.operation
        order = integers(op, "permutation")
        if order[-1] == len(order) - 1:
            return op.results[0], "".join(plain[axis] for axis in order[:-1])
    return value, plain
