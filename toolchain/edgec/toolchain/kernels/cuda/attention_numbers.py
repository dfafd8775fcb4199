"""Where an attention lies and what becomes of its scores, in the words of its kernels for CUDA.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.kernels.gpu.attentions import MOST_TERMS, kind_of, number_of, three
from edgec.toolchain.kernels.gpu.numbers import bits
from edgec.toolchain.match.attention import Attention, View

__all__ = ["given"]

_HEADS = ("outer", "middle", "inner")


def given(attention: Attention) -> tuple[dict[str, int], dict[str, int], dict[str, Any]]:
    """Where things lie, the other numbers of a call, and what is compiled in."""
    places: dict[str, int] = {}
    numbers: dict[str, int] = {}
    constants: dict[str, Any] = {
        "CAPPED": int(attention.cap != 0),
        "SAFE": int(attention.safe),
    }
    for name in "qkv":
        places |= _places(name, getattr(attention, name))
    places |= {n: step for n, step in _places("o", attention.out).items() if n != "o_at"}
    for n in range(MOST_TERMS):
        term = attention.terms[n] if n < len(attention.terms) else None
        if term is None:
            words = ("at", *_HEADS, "row", "column", "bits")
            constants |= {f"t{n}": None, f"T{n}": 0, **{f"t{n}_{word}": 0 for word in words}}
            continue
        places |= _places(f"t{n}", term.view)
        constants[f"t{n}_column"] = term.view.column
        constants[f"T{n}"] = kind_of(term)
        numbers[f"t{n}_bits"] = number_of(term)
    numbers |= {"scale_bits": bits(attention.scale), "inners": three(attention.heads, 1)[2]}
    numbers["cap_bits"] = bits(attention.cap)
    return places, numbers, constants


def _places(name: str, view: View) -> dict[str, int]:
    """Where a view lies, in the kernels' words."""
    steps = zip(_HEADS, three(view.heads, 0), strict=True)
    named = {f"{name}_{word}": step for word, step in steps}
    return {f"{name}_at": view.start, **named, f"{name}_row": view.row}
