"""Attention to a dispatch of Vulkan's kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.targets import Gpu
from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.kernels.gpu.attentions import (
    LEAST_SCANNED,
    MOST_TERMS,
    by_keys,
    hides,
    kind_of,
    number_of,
    over_halves,
    refused,
    seen_alone,
    three,
)
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import (
    ATTENTION_FORMS,
    DIRECT_ATTENTION_FORMS,
    FEW_ATTENTION_FORMS,
    MATRIX_ATTENTION_FORMS,
    MOST_GROUPS,
    AttentionForm,
)
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.kernels.vulkan.shaders import Shader
from edgec.toolchain.match.attention import Attention, Term, View, read_attention
from edgec.toolchain.match.description import validate

__all__ = ["place_attention"]

_ELEMENTS = ("f16", "f32")
_MOST_SCORES = 1 << 18
"""That are written and read again without leaving a phone's caches: 1 MiB of them."""
_BLOCK = 4096
"""Scores that take as long as a block of keys does without any."""
_FOURS = 4
_LEAST_PART = 32
"""Keys of a workgroup, at least, where they are split."""
_MOST_PARTS = 64
_LEAST_SPLIT = 128
"""Keys that one workgroup reads as soon as others would have put theirs together."""


def place_attention(op: Any, library: Library) -> None:
    """Replace `op` by a kernel if it is the second product of an attention that one takes."""
    halves = over_halves(op) if library.compiles else None
    if halves is not None and _is_read_so(by_keys(halves), library):
        _place(op, halves, library)
        return
    attention = read_attention(op, narrow=True)
    if attention is not None:
        _place(op, attention, library)


def _is_read_so(attention: Attention, library: Library) -> bool:
    """Whether a kernel takes keys and values of f16 as they are: in fours, and not by units."""
    form = _form(attention, library)
    ready = form is not None and not form.matrix and _in_fours(attention)
    return ready and not (refused(attention, _ELEMENTS) or _refused(attention))


def _place(op: Any, attention: Attention, library: Library) -> None:
    """Have a kernel take an operation's place, and keep the answer."""
    if library.compiles:
        attention = by_keys(attention)
    form = _form(attention, library)
    origin = Origin(name=op.name, location=op.location)
    what, work = str(attention), attention.work  # Nothing is left of them after a kernel is placed.
    outcome = (
        refused(attention, _ELEMENTS)
        or _refused(attention)
        or _left(attention, library)
        or _placed(attention, form, library)
    )
    library.answers.record(origin, what, work, outcome)


def _is_kept(attention: Attention) -> bool:
    """Whether keys and values are narrower than queries."""
    return bool(attention.k.element != attention.q.element)


def _form(attention: Attention, library: Library) -> AttentionForm | None:
    """The tile that should be quickest; None for heads that are too wide."""
    widest = max(attention.width, attention.depth)
    for few in FEW_ATTENTION_FORMS if library.compiles else ():
        takes = few.width >= widest and few.queries >= attention.queries
        if takes and library.fits(threads=few.threads, shared=few.shared):
            return few
    units = [form for form in MATRIX_ATTENTION_FORMS if form.width >= widest]
    if units and library.multiplies(attention.q.element):
        if library.compiles:
            same = [form for form in units if form.width == units[0].width]
            return min(same, key=lambda form: _time(form, attention, library.gpu))
        library.unmatched += 1
    forms = DIRECT_ATTENTION_FORMS if library.gpu.kernels == "direct" else ATTENTION_FORMS
    return next((form for form in forms if form.width >= widest), None)


def _time(form: AttentionForm, attention: Attention, gpu: Gpu) -> float:
    """How long a tile of matrix units takes, by no unit: its blocks, one after the other."""
    groups = math.ceil(attention.queries / form.queries) * math.prod(attention.heads)
    blocks = math.ceil(attention.keys / form.keys)
    block = _BLOCK + form.queries * form.keys
    return max(1.0, groups / gpu.multiprocessors) * blocks * block


def _placed(
    attention: Attention, form: AttentionForm | None, library: Library
) -> Kernel | Declined:
    """Its place taken by a kernel, or why there is none."""
    if form is None:
        return Declined(reason=f"a width of {max(attention.width, attention.depth)}")
    validate(attention, "attention")
    out = attention.out
    with ir.InsertionPoint(out.value.owner.operation), out.value.owner.operation.location:
        make = _split if _parts(attention, form) > 1 else _whole
        result = make(attention, form, library)
        if isinstance(result, Declined):
            return result
        replace(out.value, result)
    kept = _is_kept(attention)
    return Kernel(name=shaders.attention(form, attention.q.element, kept=kept).name)


def _parts(attention: Attention, form: AttentionForm) -> int:
    """Into how many parts the keys of few queries are split."""
    if not form.few or attention.keys < _LEAST_SPLIT:
        return 1
    return math.ceil(attention.keys / _part(attention))


def _part(attention: Attention) -> int:
    """Keys of a part: whole blocks of any form."""
    return _LEAST_PART * math.ceil(attention.keys / _MOST_PARTS / _LEAST_PART)


def _whole(attention: Attention, form: AttentionForm, library: Library) -> Any | Declined:
    """The result of a kernel that reads all keys one after the other."""
    scalar = library.compiles and not form.matrix
    shader = shaders.attention(
        form,
        attention.q.element,
        hides=scalar and attention.keys >= LEAST_SCANNED and hides(attention),
        fours=scalar and _in_fours(attention),
        kept=_is_kept(attention),
    )
    out = attention.out
    kind = ir.RankedTensorType.get([out.size], element_type(out.value))
    tiles = math.ceil(attention.queries / form.queries)
    return _called(attention, library, shader, tiles, kind)


def _split(attention: Attention, form: AttentionForm, library: Library) -> Any | Declined:
    """The result of a kernel for each part of the keys, and of one that puts these together."""
    element, out, parts = attention.q.element, attention.out, _parts(attention, form)
    seen = seen_alone(attention) and len(attention.terms) == 1
    count = math.prod(attention.heads) * parts * form.queries * (attention.depth + 2)
    if count >= 2**31:
        return Declined(reason="2^31 elements or more")
    work = _called(
        attention,
        library,
        shaders.attention(
            form,
            element,
            part=_part(attention),
            seen=seen,
            fours=_in_fours(attention),
            kept=_is_kept(attention),
        ),
        parts,
        ir.RankedTensorType.get([count], ir.F32Type.get()),
    )
    if isinstance(work, Declined):
        return work
    join = shaders.attention_join(form, element, parts, seen=seen, kept=_is_kept(attention))
    groups = math.ceil(attention.queries * attention.depth / join.threads)
    return library.call(
        join,
        (groups, *_heads(attention)),
        {},
        [work, attention.v.value],
        ir.RankedTensorType.get([out.size], element_type(out.value)),
        table=_numbers(attention),
    )


def _called(attention: Attention, library: Library, shader: Shader, tiles: int, kind: Any) -> Any:
    """What a kernel of so many tiles gives, or why there is none."""
    views = (attention.q, attention.k, attention.v)
    terms = [_read(term) for term in attention.terms]
    # A term that is not there is not read, whatever stands in its place.
    unread = [attention.q.value] * (MOST_TERMS - len(terms))
    reads = [*(view.value for view in views), *terms, *unread]
    grid = (tiles, *_heads(attention))
    return library.call(shader, grid, {}, reads, kind, table=_numbers(attention))


def _in_fours(attention: Attention) -> bool:
    """Whether rows of queries, keys and values lie in whole fours of elements."""
    steps = [attention.width, attention.depth]
    for view in (attention.q, attention.k, attention.v):
        steps += [view.start, view.row, *view.heads]
    columns = {view.column for view in (attention.q, attention.k, attention.v)}
    return columns == {1} and all(step % _FOURS == 0 for step in steps)


def _heads(attention: Attention) -> tuple[int, int]:
    """Workgroups for the middle and inner heads, and for the outer ones."""
    heads = three(attention.heads, 1)
    return heads[1] * heads[2], heads[0]


def _left(attention: Attention, library: Library) -> Declined | None:
    """Why it is left to the compiler as products and a softmax, if it is."""
    sizes = (attention.queries, attention.keys, attention.width, attention.depth)
    scores = math.prod(attention.heads) * attention.queries * attention.keys
    if scores > _MOST_SCORES or not library.leaves_even(*sizes):
        return None
    return Declined(reason="few scores, of products that the compiler cuts into even tiles")


def _refused(attention: Attention) -> Declined | None:
    """Why the kernel does not take it, if it does not."""
    heads = three(attention.heads, 1)
    if max(attention.queries, heads[0], heads[1] * heads[2]) > MOST_GROUPS:
        return Declined(reason=f"more than {MOST_GROUPS} queries or heads")
    return None


def _numbers(attention: Attention) -> tuple[int, ...]:
    """All that the kernel must know, in the order of its source: more than push constants hold."""
    numbers = [attention.queries, attention.keys, attention.width, attention.depth]
    numbers += [bits(attention.scale), bits(attention.cap), int(attention.safe)]
    numbers.append(three(attention.heads, 1)[2])
    for view in (attention.q, attention.k, attention.v, attention.out):
        numbers += _places(view)
    for term in attention.terms:
        numbers += [*_places(term.view), kind_of(term), number_of(term)]
    numbers += [0] * (8 * (MOST_TERMS - len(attention.terms)))
    return tuple(numbers)


def _places(view: View) -> list[int]:
    return [view.start, *three(view.heads, 0), view.row, view.column]


def _read(term: Term[View]) -> Any:
    """What the kernel reads: everything in f32."""
    return write.convert(term.view.value, ir.F32Type.get())
