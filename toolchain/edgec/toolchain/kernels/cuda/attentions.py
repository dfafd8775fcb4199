"""Attention to a dispatch of CUDA's kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.ir.uses import only_user
from edgec.toolchain.kernels.cuda.attention_numbers import given
from edgec.toolchain.kernels.cuda.few_queries import is_of_few, of_few
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.gpu.attentions import (
    LEAST_SCANNED,
    by_keys,
    hides,
    over_halves,
    refused,
    seen_alone,
    three,
)
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.match.attention import Attention, Bias, Mask, View, read_attention
from edgec.toolchain.match.description import validate

__all__ = ["attention_of", "refusal", "rewrite_attention"]

_ELEMENTS = ("f16", "bf16", "f32")
_WIDEST = 512
_LEAST_SPLIT = 128
"""Keys that one program reads as soon as others would have put theirs together."""
_LONGEST_MASK = 32768
_MARKS = 2048
"""Truth values that a program looks at together."""
_SCHEDULERS = 4
"""Of a multiprocessor, each of which has a warp at a time."""
_FEW_PARTS = 16
"""Parts that are put together at once; more pay where each has many keys. Timed on an H200."""
NOT_SPLIT: dict[str, Any] = {
    **{"work": None, "counters": None, "slot": 0, "parts": 1},
    **{"SEEN": 0, "FEW": 1},
}
"""Constants of a kernel that reads all keys in one part."""


def attention_of(op: Any) -> Attention | None:
    """The attention whose second product an operation is, as the kernel reads and writes it.

    In windows, unless it takes it only with even rows.
    """
    found = read_attention(op, narrow=True, windows=True)
    if found is None or refusal(found) is None:
        return found
    even = read_attention(op, narrow=True)
    return found if even is None or refusal(even) is not None else even


def rewrite_attention(op: Any, library: Library) -> None:
    """Replace `op` by a kernel if it is the second product of an attention that one takes."""
    halves = _over_halves(op, library)
    if halves is not None and _rewritten(op, halves, library, or_else=True):
        return
    attention = attention_of(op)
    if attention is not None:
        _rewritten(op, attention, library)


def _rewritten(op: Any, attention: Attention, library: Library, *, or_else: bool = False) -> bool:
    """Whether a kernel took it; why none does is kept, unless it can be taken in another way."""
    declined = refusal(attention)
    if declined is None:
        validate(attention, "attention")
        attention = by_keys(_narrowed(attention))
    answer = declined or _call(attention, library)
    if or_else and isinstance(answer, Declined):
        return False
    outcome = answer if isinstance(answer, Declined) else Kernel(name=library.launches[-1].name)
    if not library.answers.record(op, str(attention), attention.work, outcome):
        return False
    last = attention.out.value
    with ir.InsertionPoint(last.owner.operation), last.owner.operation.location:
        replace(last, answer)
    return True


def _over_halves(op: Any, library: Library) -> Attention | None:
    """The attention over a cache of f16, where the kernel of few queries reads it.

    Many queries have it widened first, which is little beside their products.
    """
    found = over_halves(op)
    if found is None or refusal(found) is not None:
        return None
    return found if is_of_few(by_keys(found), library) else None


def refusal(attention: Attention) -> Declined | None:
    """Why the kernel does not take it, if it does not."""
    declined = refused(attention, _ELEMENTS)
    if declined is not None:
        return declined
    if max(attention.width, attention.depth) > _WIDEST:
        return Declined(reason=f"a width of {max(attention.width, attention.depth)}")
    if attention.out.column != 1:
        return Declined(reason="the elements of a result are no neighbours")
    for term in attention.terms:
        if term.view.element not in (*_ELEMENTS, "i1"):
            return Declined(reason=f"a bias of {term.view.element}")
        if not term.view.is_even:
            return Declined(reason="a mask or bias whose queries lie in windows")
    views = (attention.q, attention.k, attention.v, attention.out)
    widths = (attention.width, attention.width, attention.depth, attention.depth)
    for view, width in zip(views, widths, strict=True):
        if not view.turns_whole_rows(attention.heads, width):
            return Declined(reason="a roll along a row")
    return None


def _narrowed(attention: Attention) -> Attention:
    """The same over what was widened to f32 for it alone, if its result is rounded back.

    PyTorch widens queries, keys and values so. The kernel sums and takes powers in f32 anyway.
    """
    user = only_user(attention.out.value)
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
        if is_of_few(attention, library):
            answer = library.call(of_few(attention, reads, library))
            if not isinstance(answer, Declined):
                return answer[0]
        if attention.k.element != attention.q.element:
            return answer
        for rows, keys in _tiles(attention, library):
            answer = library.call(_launch(attention, rows, keys, reads, library))
            if not isinstance(answer, Declined):
                return answer[0]
    return answer


def _tiles(attention: Attention, library: Library) -> Iterator[tuple[int, int]]:
    """Queries and keys of a tile, the best first, and smaller ones that take less memory."""
    if attention.queries == 1:
        yield (1, 32 if _power(max(attention.width, attention.depth)) <= 128 else 16)
    elif _parts_of_keys(attention, 16, 32, library) > 1:
        yield (16, 32)
    tiles = attention.count * math.ceil(attention.queries / 64)
    large = tiles >= library.gpu.multiprocessors
    if _power(max(attention.width, attention.depth)) <= 128:
        yield from ((64, 64), (64, 32)) if large else ()
        yield (16, 64)
    yield (16, 32)
    yield (16, 16)


def _launch(
    attention: Attention, rows: int, keys: int, reads: dict[str, Any], library: Library
) -> Launch:
    """The call of the kernel."""
    parts = _parts_of_keys(attention, rows, keys, library)
    heads = three(attention.heads, 1)
    out = attention.out
    numbers = {"queries": attention.queries, "keys": attention.keys}
    constants: dict[str, Any] = {
        "BM": rows,
        "BN": keys,
        "D": _power(attention.width),
        "E": _power(attention.depth),
        "CAPPED": int(attention.cap != 0),
        "SAFE": int(attention.safe),
        "PRECISION": library.precision,
        "SPLIT": parts > 1,
        **(_split(attention) if parts > 1 else NOT_SPLIT | {"SEEN": _looked_at(attention, rows)}),
        "width": attention.width,
        "depth": attention.depth,
    }
    places, more, compiled_in = given(attention)
    numbers, constants = numbers | more, constants | compiled_in
    for name, view in zip("QKVO", (attention.q, attention.k, attention.v, out), strict=True):
        constants[f"{name}_PARTS"] = _parts(view)
        constants[f"{name}_ROLLS"] = tuple(
            n for roll in view.rolls for n in (roll.size, roll.step, roll.shift)
        )
    constants |= {f"{name}_column": getattr(attention, name).column for name in "qkv"}
    sizes = f"{attention.width}_{rows}_{attention.q.element}"
    work = {}
    if parts > 1:
        numbers["parts"] = parts
        room = attention.count * parts * rows * (_power(attention.depth) + 2)
        work["work"] = ir.RankedTensorType.get([room], ir.F32Type.get())
    return Launch(
        name=f"attention_{sizes}",
        source="attention",
        grid=(
            math.ceil(attention.queries / rows) if parts == 1 else parts,
            heads[1] * heads[2],
            heads[0],
        ),
        warps=_warps(attention, rows, parts, library),
        stages=2,
        reads=reads,
        writes={"o": ir.RankedTensorType.get([out.size], element_type(out.value)), **work},
        numbers={**numbers, **places},
        constants=constants,
        multiples={name: 8 for name, step in places.items() if step % 8 == 0},
        counters=attention.count if parts > 1 else 0,
    )


def _parts_of_keys(attention: Attention, rows: int, keys: int, library: Library) -> int:
    """Into how many parts keys are split: as keep all multiprocessors busy, and are worth it."""
    if attention.queries > rows or attention.keys < _LEAST_SPLIT:
        return 1
    most = min(math.ceil(attention.keys / keys), max(_FEW_PARTS, attention.keys // _LEAST_SPLIT))
    return max(1, min(most, library.gpu.multiprocessors // max(1, attention.count)))


def _warps(attention: Attention, rows: int, parts: int, library: Library) -> int:
    """Warps of a program: one does for few queries, where there is a program for each core.

    Where there are fewer programs most of the GPU waits for them. Timed on an H200: 64 queries of 9
    heads, 1,088 keys, in f32: 201 us by one warp in a program, 68 by two, 47 by four, 50 by eight.
    """
    programs = attention.count * math.ceil(attention.queries / rows)
    few = rows in (1, 64) or parts > 1 or programs < _SCHEDULERS * library.gpu.multiprocessors
    return 4 if few else 1


def _looked_at(attention: Attention, rows: int) -> int:
    """Keys whose marks a tile looks at together for those that it sees; 0 where it reads them all.

    That pays where a mask hides much: in a prompt's chunk all keys behind it, and what the cache
    has not been given yet.
    """
    if attention.keys < LEAST_SCANNED or not hides(attention):
        return 0
    return max(16, _MARKS // rows)


def _split(attention: Attention) -> dict[str, Any]:
    """Constants of a kernel that reads keys in parts."""
    return {"SEEN": _seen(attention), "FEW": 1 << (attention.queries - 1).bit_length()}


def _seen(attention: Attention) -> int:
    """A power of two for the mask by which parts are chosen; 0 where it does not say it alone."""
    if attention.keys > _LONGEST_MASK or not seen_alone(attention):
        return 0
    return _power(attention.keys)


def _parts(view: View) -> tuple[int, ...]:
    """The sizes of the parts of a row's number and the steps between, from the innermost outwards.

    The step of the innermost and the size of the outermost are not among them.
    """
    numbers = [n for digit in reversed(view.rows) for n in (digit.step, digit.size)]
    return tuple(numbers[1:-1])


def _read(term: Bias[View] | Mask[View]) -> Any:
    """What the kernel reads: truth values as bytes."""
    value = term.view.value
    if isinstance(term, Mask):
        return write.convert(value, ir.IntegerType.get_signless(8))
    return value


def _power(size: int) -> int:
    """The least power of two, of those that a matrix unit takes, that holds as much."""
    return max(16, 1 << (size - 1).bit_length())
