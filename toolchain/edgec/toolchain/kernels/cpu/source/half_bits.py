"""Halves to f32 by their bits, in kernels for targets whose code has none."""

from edgec.toolchain.kernels.cpu.source.body import Body

__all__ = ["widened_bits"]

_MOVED = 13
"""How much further left an f32 has the last bit of a half's exponent."""
_KEPT = 0x8FFFE000 - (1 << 32)
"""Where a half's bits are then: its sign, which was repeated before it, and the rest."""
_LARGER = 2.0**112
"""How much larger a half is than the f32 with its bits there."""
_ENDLESS, _WIDE_ENDLESS = 0x7C00, 0x7F800000
"""The exponent of infinities and NaNs in f16, and in f32."""


def widened_bits(body: Body, bits: str, stored: str, wide: str) -> str:
    """What halves are in f32, of their bits as `stored` (i16 or a vector of it); all are exact.

    `passes/simplify/half_conversions.py` writes the same in StableHLO.
    """
    words = wide.replace("f32", "i32")
    is_vector = words.startswith("vector")

    def number(value: int) -> str:
        return body.value(f"arith.constant {f'dense<{value}>' if is_vector else value}", words)

    def together(name: str, one: str, other: str) -> str:
        return body.value(f"arith.{name} {one}, {other}", words)

    whole = body.value(f"arith.extsi {bits}", f"{stored} to {words}")
    moved = together("andi", together("shli", whole, number(_MOVED)), number(_KEPT))
    small = body.value(f"arith.bitcast {moved}", f"{words} to {wide}")
    large = body.value(f"arith.mulf {small}, {body.number(_LARGER, wide)}", wide)
    exponent = together("andi", whole, number(_ENDLESS))
    is_endless = together("cmpi eq,", exponent, number(_ENDLESS))
    kind = f"{words.replace('i32', 'i1')}, {words}" if is_vector else words
    more = body.value(f"arith.select {is_endless}, {number(_WIDE_ENDLESS)}, {number(0)}", kind)
    found = together("ori", body.value(f"arith.bitcast {large}", f"{wide} to {words}"), more)
    return body.value(f"arith.bitcast {found}", f"{words} to {wide}")
