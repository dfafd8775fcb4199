"""Attention to a dispatch of CUDA's kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import dataclasses
import math
import struct
from collections.abc import Iterator
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.attention import Attention, Bias, Mask, View, read_attention
from edgec.toolchain.match.description import validate

__all__ = ["rewrite_attention"]

_ELEMENTS = ("f16", "bf16", "f32")
_HEADS = ("outer", "middle", "inner")
_MOST_TERMS = 3
_WIDEST = 512


def rewrite_attention(op: Any, library: Library) -> None:
    """Replace `op` by a kernel if it is the second product of an attention that one takes."""
    attention = read_attention(op, narrow=True)
    if attention is None:
        return
    refused = _refused(attention)
    if refused is None:
        validate(attention, "attention")
        attention = _narrowed(attention)
    answer = refused or _call(attention, library)
    outcome = answer if isinstance(answer, Declined) else Kernel(name=library.launches[-1].name)
    if library.answers.record(op, str(attention), attention.work, outcome):
        last = attention.out.value
        with ir.InsertionPoint(last.owner.operation), last.owner.operation.location:
            replace(last, answer)


def _refused(attention: Attention) -> Declined | None:
    """Why the kernel does not take it, if it does not."""
    element = attention.q.element
    views = (attention.q, attention.k, attention.v, attention.out)
    if element not in _ELEMENTS or any(view.element != element for view in views):
        return Declined(reason=f"elements of {' and '.join(sorted({v.element for v in views}))}")
    if attention.shared:
        return Declined(reason="its weights are used by something else, too")
    if len(attention.heads) > len(_HEADS):
        return Declined(reason=f"heads of {len(attention.heads)} indices")
    if max(attention.width, attention.depth) > _WIDEST:
        return Declined(reason=f"a width of {max(attention.width, attention.depth)}")
    if attention.out.column != 1:
        return Declined(reason="the elements of a result are no neighbours")
    if len(attention.terms) > _MOST_TERMS:
        return Declined(reason=f"{len(attention.terms)} masks and biases")
    for term in attention.terms:
        if term.view.element not in (*_ELEMENTS, "i1"):
            return Declined(reason=f"a bias of {term.view.element}")
    largest = max(view.size for view in (*views, *(term.view for term in attention.terms)))
    return Declined(reason="2^31 elements or more") if largest >= 2**31 else None


def _narrowed(attention: Attention) -> Attention:
    """The same over what was widened to f32 for it alone, if its result is rounded back.

    PyTorch widens queries, keys and values so. The kernel sums and takes powers in f32 anyway.
    """
    uses = list(attention.out.value.uses)
    user = uses[0].owner.operation if len(uses) == 1 else None
    if user is None or user.name != "stablehlo.convert":
        return attention
    kind = element_type(user.results[0])
    q, k, v = (_before_widening(view, kind) for view in (attention.q, attention.k, attention.v))
    if str(kind) not in _ELEMENTS[:2] or q is None or k is None or v is None:
        return attention
    out = dataclasses.replace(attention.out, value=user.results[0])
    return dataclasses.replace(attention, out=out, q=q, k=k, v=v)


def _before_widening(view: View, kind: Any) -> View | None:
    """A view of f32 as one of the narrower type that it was widened from."""
    owner = view.value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.convert":
        return None
    source = owner.operation.operands[0]
    return dataclasses.replace(view, value=source) if element_type(source) == kind else None


def _call(attention: Attention, library: Library) -> Any | Declined:
    """The result of the kernel with the best tile that fits the GPU, or why there is none."""
    last = attention.out.value
    answer: list[Any] | Declined = Declined(reason="no tile")
    with ir.InsertionPoint(last.owner.operation), last.owner.operation.location:
        reads = {name: getattr(attention, name).value for name in "qkv"}
        reads |= {f"t{n}": _read(term) for n, term in enumerate(attention.terms)}
        for rows, keys in _tiles(attention, library):
            answer = library.call(_launch(attention, rows, keys, reads, library.precision))
            if not isinstance(answer, Declined):
                return answer[0]
    return answer


def _tiles(attention: Attention, library: Library) -> Iterator[tuple[int, int]]:
    """Queries and keys of a tile, the best first, and smaller ones that take less memory."""
    tiles = attention.count * math.ceil(attention.queries / 64)
    large = tiles >= library.gpu.multiprocessors
    if _power(max(attention.width, attention.depth)) <= 128:
        yield from ((64, 64), (64, 32)) if large else ()
        yield (16, 64)
    yield (16, 32)
    yield (16, 16)


def _launch(
    attention: Attention, rows: int, keys: int, reads: dict[str, Any], precision: str
) -> Launch:
    """The call of the kernel."""
    heads = (1,) * (len(_HEADS) - len(attention.heads)) + attention.heads
    out = attention.out
    numbers = {"queries": attention.queries, "keys": attention.keys}
    constants: dict[str, Any] = {
        "BM": rows,
        "BN": keys,
        "D": _power(attention.width),
        "E": _power(attention.depth),
        "CAPPED": int(attention.cap != 0),
        "SAFE": int(attention.safe),
        "PRECISION": precision,
        "width": attention.width,
        "depth": attention.depth,
    }
    places: dict[str, int] = {}
    for name in "qkv":
        view: View = getattr(attention, name)
        places |= _places(name, view)
        constants[f"{name}_column"] = view.column
    places |= {n: step for n, step in _places("o", out).items() if n != "o_at"}
    for n in range(_MOST_TERMS):
        term = attention.terms[n] if n < len(attention.terms) else None
        if term is None:
            words = ("at", *_HEADS, "row", "column", "bits")
            constants |= {f"t{n}": None, f"T{n}": 0, **{f"t{n}_{word}": 0 for word in words}}
            continue
        places |= _places(f"t{n}", term.view)
        constants[f"t{n}_column"] = term.view.column
        constants[f"T{n}"] = _kind(term)
        numbers[f"t{n}_bits"] = _bits(term.factor if isinstance(term, Bias) else term.otherwise)
    numbers |= {"scale_bits": _bits(attention.scale), "inners": heads[2]}
    numbers["cap_bits"] = _bits(attention.cap)
    sizes = f"{attention.width}_{rows}_{attention.q.element}"
    return Launch(
        name=f"attention_{sizes}",
        source="attention",
        grid=(math.ceil(attention.queries / rows), heads[1] * heads[2], heads[0]),
        warps=4 if rows == 64 else 1,
        stages=2,
        reads=reads,
        writes={"o": ir.RankedTensorType.get([out.size], element_type(out.value))},
        numbers={**numbers, **places},
        constants=constants,
        multiples={name: 8 for name, step in places.items() if step % 8 == 0},
    )


def _places(name: str, view: View) -> dict[str, int]:
    """Where a view lies, in the kernel's words."""
    heads = (0,) * (len(_HEADS) - len(view.heads)) + view.heads
    named = {f"{name}_{word}": step for word, step in zip(_HEADS, heads, strict=True)}
    return {f"{name}_at": view.start, **named, f"{name}_row": view.row}


def _kind(term: Bias[View] | Mask[View]) -> int:
    return 1 if isinstance(term, Bias) else 2 if term.keep else 3


def _read(term: Bias[View] | Mask[View]) -> Any:
    """What the kernel reads: truth values as bytes."""
    value = term.view.value
    if isinstance(term, Mask):
        return write.convert(value, ir.IntegerType.get_signless(8))
    return value


def _power(size: int) -> int:
    """The least power of two, of those that a matrix unit takes, that holds as much."""
    return max(16, 1 << (size - 1).bit_length())


def _bits(number: float) -> int:
    """The bits of an f32 as an integer."""
    lowest = -3.4028234663852886e38
    bounded = number if math.isinf(number) else min(max(number, lowest), -lowest)
    bits: int = struct.unpack("<i", struct.pack("<f", bounded))[0]
    return bits
