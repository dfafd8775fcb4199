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
    MOST_TERMS,
    kind_of,
    number_of,
    refused,
    three,
)
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import (
    ATTENTION_FORMS,
    DIRECT_ATTENTION_FORMS,
    MATRIX_ATTENTION_FORMS,
    AttentionForm,
)
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.attention import Attention, Term, View, read_attention
from edgec.toolchain.match.description import validate

__all__ = ["place_attention"]

_ELEMENTS = ("f16", "f32")
_MOST_SCORES = 1 << 18
"""That are written and read again without leaving a phone's caches: 1 MiB of them."""
_BLOCK = 4096
"""Scores that take as long as a block of keys does without any."""
_MOST_GROUPS = 65535
"""Workgroups along one axis that every device takes."""


def place_attention(op: Any, library: Library) -> None:
    """Replace `op` by a kernel if it is the second product of an attention that one takes."""
    attention = read_attention(op, narrow=True)
    if attention is None:
        return
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


def _form(attention: Attention, library: Library) -> AttentionForm | None:
    """The tile that should be quickest; None for heads that are too wide."""
    widest = max(attention.width, attention.depth)
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
    heads = three(attention.heads, 1)
    out = attention.out
    shader = shaders.attention(form, attention.q.element)
    with ir.InsertionPoint(out.value.owner.operation), out.value.owner.operation.location:
        views = (attention.q, attention.k, attention.v)
        terms = [_read(term) for term in attention.terms]
        # A term that is not there is not read, whatever stands in its place.
        unread = [attention.q.value] * (MOST_TERMS - len(terms))
        result = library.call(
            shader,
            (math.ceil(attention.queries / form.queries), heads[1] * heads[2], heads[0]),
            {},
            [*(view.value for view in views), *terms, *unread],
            ir.RankedTensorType.get([out.size], element_type(out.value)),
            table=_numbers(attention),
        )
        if isinstance(result, Declined):
            return result
        replace(out.value, result)
    return Kernel(name=shader.name)


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
    if max(attention.queries, heads[0], heads[1] * heads[2]) > _MOST_GROUPS:
        return Declined(reason=f"more than {_MOST_GROUPS} queries or heads")
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
