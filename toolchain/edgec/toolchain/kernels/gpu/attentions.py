"""What the kernels of all GPUs ask of an attention, and the numbers that its terms become.

A module imported only by a pass that runs; it needs the compiler.
"""

import dataclasses
import math
from collections.abc import Collection
from typing import Any

from edgec.toolchain.ir.views import Digit
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.attention import Attention, Bias, Mask, Term, View, read_attention
from edgec.toolchain.match.scores import LOW

__all__ = [
    "INDICES",
    "LEAST_SCANNED",
    "MOST_TERMS",
    "by_keys",
    "hides",
    "kind_of",
    "number_of",
    "over_halves",
    "refused",
    "seen_alone",
    "three",
]

INDICES = 3
"""Indices of a grid, and so of heads."""
MOST_TERMS = 3
LEAST_SCANNED = 256
"""Keys of which it pays to look first for those that are seen."""


def refused(attention: Attention, elements: Collection[str]) -> Declined | None:
    """Why no kernel of a GPU takes it, if none does.

    Args:
        attention: what is to be computed.
        elements: the types that the device's kernels take.
    """
    element = attention.q.element
    views = (attention.q, attention.k, attention.v, attention.out)
    alike = {attention.q.element, attention.out.element}, {attention.k.element, attention.v.element}
    kept = alike == ({"f32"}, {"f16"})
    if element not in elements or not (kept or alike == ({element}, {element})):
        return Declined(reason=f"elements of {' and '.join(sorted({v.element for v in views}))}")
    if attention.shared:
        return Declined(reason="its weights are used by something else, too")
    if len(attention.heads) > INDICES:
        return Declined(reason=f"heads of {len(attention.heads)} indices")
    if len(attention.terms) > MOST_TERMS:
        return Declined(reason=f"{len(attention.terms)} masks and biases")
    largest = max(view.size for view in (*views, *(term.view for term in attention.terms)))
    return Declined(reason="2^31 elements or more") if largest >= 2**31 else None


def over_halves(op: Any) -> Attention | None:
    """The attention of queries of f32 over keys and values that are kept in f16; None of others.

    Args:
        op: a `stablehlo.dot_general`.
    """
    found = read_attention(op, kept=True)
    return found if found and (found.q.element, found.k.element) == ("f32", "f16") else None


def three(heads: tuple[int, ...], filler: int) -> tuple[int, int, int]:
    """Three indices of heads, the outermost first."""
    outer, middle, inner = ((filler,) * INDICES + heads)[-INDICES:]
    return outer, middle, inner


def kind_of(term: Term[View]) -> int:
    """1 adds a bias, 2 keeps a score where a truth value is true, 3 where it is false."""
    return 1 if isinstance(term, Bias) else 2 if term.keep else 3


def number_of(term: Term[View]) -> int:
    """The bits of a bias's factor, or of what a masked score becomes."""
    return bits(term.factor if isinstance(term, Bias) else term.otherwise)


def by_keys(attention: Attention) -> Attention:
    """Of one query the heads that share keys as queries of one head: keys are read once for all."""
    shared = (attention.k, attention.v)
    if attention.queries != 1 or not attention.heads or any(view.heads[-1] for view in shared):
        return attention
    count = attention.heads[-1]

    def as_query(view: View) -> View:
        rows = (Digit(size=count, step=view.heads[-1]),) if count > 1 else ()
        return dataclasses.replace(view, heads=view.heads[:-1], rows=rows)

    def alone(view: View) -> View:
        return dataclasses.replace(view, heads=view.heads[:-1])

    return dataclasses.replace(
        attention,
        heads=attention.heads[:-1],
        queries=count,
        q=as_query(attention.q),
        k=alone(attention.k),
        v=alone(attention.v),
        out=as_query(attention.out),
        terms=tuple(
            dataclasses.replace(term, view=as_query(term.view)) for term in attention.terms
        ),
    )


def hides(attention: Attention) -> bool:
    """Whether its first term is a mask, and what masks hide counts for nothing.

    Of several masks all hide with minus infinity: a query that sees nothing because of two of them
    counts keys alike that either of them hides with another number.
    """
    masks = [term for term in attention.terms if isinstance(term, Mask)]
    if not masks or masks[0] is not attention.terms[0]:
        return False
    most = LOW if len(masks) == 1 else -math.inf
    return all(mask.otherwise <= most for mask in masks)


def seen_alone(attention: Attention) -> bool:
    """Whether its first term masks all queries alike, and what it hides counts for nothing."""
    if not hides(attention):
        return False
    view = attention.terms[0].view
    return not (view.row or any(view.heads))
