"""Attention of few queries, as a model that writes has it, to a dispatch of the kernel in C.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import element_type
from edgec.toolchain.kernels.cuda.attention_numbers import given
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.cuda.variants import FAMILIES
from edgec.toolchain.kernels.gpu.attentions import seen_alone, three
from edgec.toolchain.match.attention import Attention

__all__ = ["is_of_few", "of_few"]

_MOST_QUERIES = 8
_WIDEST = 256
_WARPS = 8
_KEYS_OF_PROGRAM = 128
"""Keys that one program reads as soon as others would have put theirs together."""
_MOST_TOGETHER = 8
"""Programs that write to the memory of one another."""
_LEAST_KEYS = 32
"""For which that pays."""
_MOST_KEYS = 4096
"""Of a part: their scores lie in a multiprocessor's memory."""


def is_of_few(attention: Attention, library: Library) -> bool:
    """Whether the kernel takes it: few queries, whose elements lie in even rows of fours."""
    views = (attention.q, attention.k, attention.v)
    steps = [step for view in views for step in (view.start, *view.heads, view.row)]
    scores = _rows(attention, library) * attention.keys
    return (
        attention.queries <= _MOST_QUERIES
        and all(view.is_even for view in (*views, attention.out))
        and all(view.column == 1 for view in views)
        and not any(size % 4 for size in (*steps, attention.width, attention.depth))
        and max(attention.width, attention.depth) <= _WIDEST
        and scores <= _MOST_KEYS * _parts(attention, library) * _together(attention, library)
    )


def of_few(attention: Attention, reads: dict[str, Any], library: Library) -> Launch:
    """The call of the kernel.

    Args:
        attention: one that `is_of_few`.
        reads: what it reads, by the kernel's parameters.
        library: the kernels of the module.
    """
    rows, parts = _rows(attention, library), _parts(attention, library)
    cluster = _together(attention, library)
    tiles = math.ceil(attention.queries / rows)
    outer, middle, inner = three(attention.heads, 1)
    places, numbers, constants = given(attention)
    constants |= {"ROWS": rows, "CLUSTER": cluster, "WARPS": _WARPS, "parts": parts}
    constants |= {"LEAST": _KEYS_OF_PROGRAM * cluster}
    constants |= {"SEEN": seen_alone(attention), "queries": attention.queries}
    constants |= {"keys": attention.keys, "width": attention.width, "depth": attention.depth}
    work = {}
    if parts > 1:
        spread = 1 << max(5, (attention.depth - 1).bit_length())
        room = attention.count * tiles * parts * rows * (spread + 2)
        work["work"] = ir.RankedTensorType.get([room], ir.F32Type.get())
    else:
        constants |= {"work": None, "counters": None, "slot": 0}
    out = attention.out
    return Launch(
        name=f"attention_few_{attention.width}_{attention.k.element}",
        source="attention_few",
        grid=(cluster * parts * tiles, middle * inner, outer),
        warps=_WARPS,
        stages=1,
        reads=reads,
        writes={"o": ir.RankedTensorType.get([out.size], element_type(out.value)), **work},
        numbers=numbers | places,
        constants=constants,
        counters=attention.count * tiles if parts > 1 else 0,
    )


def _rows(attention: Attention, library: Library) -> int:
    """Queries of a program: one, as long as each still has a multiprocessor."""
    room = library.gpu.multiprocessors
    return 1 if attention.count * attention.queries <= room else attention.queries


def _programs(attention: Attention, library: Library) -> int:
    """Programs, as long as each reads all keys."""
    return attention.count * math.ceil(attention.queries / _rows(attention, library))


def _together(attention: Attention, library: Library) -> int:
    """How many programs share the keys of one: a power of two, as many as there is room for."""
    if not FAMILIES[library.gpu.kernels].clusters:
        return 1
    room = library.gpu.multiprocessors // _programs(attention, library)
    most = min(_MOST_TOGETHER, room, attention.keys // _LEAST_KEYS)
    return 1 << max(0, most.bit_length() - 1)


def _parts(attention: Attention, library: Library) -> int:
    """Into how many parts keys are split at most, each of some programs."""
    together = _together(attention, library)
    room = library.gpu.multiprocessors // (_programs(attention, library) * together)
    return max(1, min(room, math.ceil(attention.keys / (_KEYS_OF_PROGRAM * together))))
