"""Attention as the CPU's kernels take it: sizes, steps through memory, and what becomes of scores.

`attention_by_query` and `attention_by_key` write the kernels: the one has neighbouring queries in
a vector, the other neighbouring keys.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Attention", "Term", "View", "heads_of_workgroup", "start_of_head"]


@dataclass(frozen=True, kw_only=True)
class View:
    """Where elements lie in a binding of `size` elements: at `start` plus each index times a step.

    Attributes:
        size: elements of the binding.
        start: where the first element lies.
        heads: steps of the indices that name a head.
        row: step from one query, key or result to the next.
        column: step along its width (along the keys, for what is added to scores).
    """

    size: int
    start: int = 0
    heads: tuple[int, ...]
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class Term:
    """What becomes of scores once they are scaled.

    Attributes:
        view: f32 to add, or bytes of which some keep a score; its columns are neighbours or one.
        factor: what is added is multiplied with this.
        keep: whether bytes that are not 0 keep a score, or those that are; None where it is added.
        otherwise: what a score becomes that is not kept.
    """

    view: View
    factor: float = 1.0
    keep: bool | None = None
    otherwise: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Attention:
    """softmax(scores) V for every head, of scores = scale * Q K^T and what becomes of them.

    Attributes:
        heads: how many there are of each index that names a head.
        queries, keys: how many of each.
        width: elements of a query and of a key.
        depth: elements of a value and of a result.
        scale: what the products are multiplied with.
        cap: scores then become `cap * tanh(scores)`; 0 where they do not.
        q, k, v, out: where these lie; the columns of values and result are neighbours.
        terms: what then becomes of the scores, in order.
        safe: a query whose scores are all minus infinity gets zeros, not NaN.
        stack: bytes that a tile of queries may use for scores.
        kept: the type of keys and values: f32 or f16; queries and result are f32.
    """

    heads: tuple[int, ...]
    queries: int
    keys: int
    width: int
    depth: int
    scale: float
    q: View
    k: View
    v: View
    out: View
    cap: float = 0.0
    terms: tuple[Term, ...] = ()
    safe: bool = False
    stack: int
    kept: str = "f32"

    @property
    def count(self) -> int:
        """Heads in all."""
        return math.prod(self.heads)

    @property
    def key_heads(self) -> int:
        """Heads that have keys of their own."""
        return math.prod(n for n, s in zip(self.heads, self.k.heads, strict=True) if s)

    @property
    def flops(self) -> int:
        """Multiplications and additions of the two products."""
        return 2 * self.count * self.queries * self.keys * (self.width + self.depth)


def heads_of_workgroup(
    w: Writer, name: str, sizes: Sequence[int], number: str = "%wx"
) -> Iterator[str]:
    """`name0`, `name1`, …: the indices that the workgroup's number is made of."""
    left = number
    for axis in reversed(range(len(sizes))):
        rest = w.fresh()
        yield f"{name}{axis} = arith.remui {left}, {w.index(sizes[axis])} : index"
        yield f"{rest} = arith.divui {left}, {w.index(sizes[axis])} : index"
        left = rest


def start_of_head(
    w: Writer, name: str, start: int, steps: Sequence[int], indices: str
) -> Iterator[str]:
    """Where the workgroup's head begins in a view."""
    total = w.index(start)
    for axis, step in enumerate(steps):
        far, more = w.fresh(), w.fresh()
        yield f"{far} = arith.muli {indices}{axis}, {w.index(step)} : index"
        yield f"{more} = arith.addi {total}, {far} : index"
        total = more
    yield f"{name} = arith.addi {total}, {w.index(0)} : index"
