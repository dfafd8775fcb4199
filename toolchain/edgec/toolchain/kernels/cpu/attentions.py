"""Attention to a dispatch of edgec's CPU kernels; of some queries to two, the first packs keys.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import element_type
from edgec.toolchain.ir.standing import stand_for
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source import attention as source
from edgec.toolchain.kernels.cpu.source.attention_by_key import by_key_kernel
from edgec.toolchain.kernels.cpu.source.attention_by_query import by_query_kernel
from edgec.toolchain.kernels.cpu.source.attention_few import few_kernel, lanes_for
from edgec.toolchain.kernels.cpu.source.attention_keys import packed_keys, packing_kernel
from edgec.toolchain.kernels.cpu.source.attention_tiling import query_tiling
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match.attention import Attention, Bias, Mask, View, read_attention
from edgec.toolchain.match.description import validate

__all__ = ["place_attention"]

_MOST_TERMS = 4


def place_attention(
    op: Any, library: Library, unit: VectorUnit, stack: int, answers: Answers
) -> bool:
    """Replace `op` by kernels if it is the second product of an attention that they take.

    Args:
        op: a `stablehlo.dot_general`.
        library: where the kernels go.
        unit: the vector registers of the target.
        stack: bytes of stack that a kernel may use for scores.
        answers: where the answer is kept.
    """
    attention = _read_as_kept(op, unit, stack) or read_attention(op)
    if attention is None:
        return False
    outcome = _answer(attention)
    if not answers.record(op, str(attention), attention.work, outcome):
        return False
    validate(attention, "attention")
    shape = _shape(attention, stack)
    out = attention.out.value
    with ir.InsertionPoint(out.owner.operation), op.location:
        result = _call(attention, shape, library, unit)
    stand_for(out, result)
    return True


def _read_as_kept(op: Any, unit: VectorUnit, stack: int) -> Attention | None:
    """The attention over keys and values of f16, where the kernel of a few queries reads them.

    Many queries have keys and values widened first: that is little beside their products.
    """
    attention = read_attention(op, kept=True)
    if attention is None or attention.k.element != "f16" or attention.q.element != "f32":
        return None
    if not isinstance(_answer(attention), Kernel):
        return None
    shape = _shape(attention, stack)
    few = query_tiling(shape, unit) is None and lanes_for(shape, unit) is not None
    return attention if few else None


def _call(attention: Attention, shape: source.Attention, library: Library, unit: VectorUnit) -> Any:
    """The result of the kernels that suit the number of queries."""
    sizes = f"{shape.count}x{shape.queries}x{shape.keys}x{shape.width}"
    name, kind = f"edgec_attention_{sizes}", attention.out.value.type
    q, k, v = attention.q.value, attention.k.value, attention.v.value
    terms = [_read(term) for term in attention.terms]
    cut = query_tiling(shape, unit)
    if cut is not None:
        text = by_query_kernel("NAME", shape, cut, unit)
        return library.call(name, text, [q, k, v, *terms], kind)
    lanes = lanes_for(shape, unit)
    if lanes is not None:
        text = few_kernel("NAME", shape, lanes, unit)
        return library.call(name, text, [q, k, v, *terms], kind)
    packed = library.call(
        f"edgec_keys_{sizes}",
        packing_kernel("NAME", shape, unit),
        [k],
        ir.RankedTensorType.get(packed_keys(shape, unit), ir.F32Type.get()),
    )
    text = by_key_kernel("NAME", shape, unit)
    return library.call(name, text, [q, packed, v, *terms], kind)


def _answer(attention: Attention) -> Kernel | Declined:
    """Whether the kernels take it."""
    if any(view.element != "f32" for view in (attention.q, attention.out)):
        return Declined(reason=f"elements of {attention.q.element}")
    if any(view.element not in ("f16", "f32") for view in (attention.k, attention.v)):
        return Declined(reason=f"keys of {attention.k.element}")
    if attention.shared:
        return Declined(reason="its weights are used by something else, too")
    if attention.v.column != 1 or attention.out.column != 1:
        return Declined(reason="the elements of a value are no neighbours")
    if len(attention.terms) > _MOST_TERMS:
        return Declined(reason=f"{len(attention.terms)} masks and biases")
    for term in attention.terms:
        if term.view.column not in (0, 1):
            return Declined(reason="a mask or bias whose keys are no neighbours")
        if isinstance(term, Bias) and term.view.element != "f32":
            return Declined(reason=f"a bias of {term.view.element}")
    return Kernel(name="edgec_attention")


def _shape(attention: Attention, stack: int) -> source.Attention:
    """What the kernels are written for."""
    return source.Attention(
        heads=attention.heads,
        queries=attention.queries,
        keys=attention.keys,
        width=attention.width,
        depth=attention.depth,
        scale=attention.scale,
        cap=attention.cap,
        terms=tuple(_term(term) for term in attention.terms),
        safe=attention.safe,
        q=_view(attention.q),
        k=_view(attention.k),
        v=_view(attention.v),
        out=_view(attention.out),
        stack=stack,
        kept=attention.k.element,
    )


def _term(term: Bias[View] | Mask[View]) -> source.Term:
    if isinstance(term, Bias):
        return source.Term(view=_view(term.view), factor=term.factor)
    return source.Term(view=_view(term.view), keep=term.keep, otherwise=term.otherwise)


def _view(view: View) -> source.View:
    return source.View(
        size=view.size, start=view.start, heads=view.heads, row=view.row, column=view.column
    )


def _read(term: Bias[View] | Mask[View]) -> Any:
    """What the kernel reads: truth values as bytes."""
    value = term.view.value
    if isinstance(term, Mask) and str(element_type(value)) == "i1":
        return write.convert(value, ir.IntegerType.get_signless(8))
    return value
