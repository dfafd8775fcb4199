"""Unicode's normal forms to tables: what a character is made of, and what becomes of two.

Of Python's own Unicode, but for characters that `tokenizers` takes otherwise: its Unicode may be
older.
"""

import functools
import unicodedata
from typing import Any

from edgec.toolchain.text.writing import Writer

__all__ = ["FORMS", "write_tables"]

FORMS = {"NFC": (False, True), "NFD": (False, False), "NFKC": (True, True), "NFKD": (True, False)}
"""By name: whether compatible characters become one, and whether what was cut is composed again."""

_HANGUL = range(0xAC00, 0xD7A4)


@functools.cache
def _decompositions(name: str) -> dict[int, tuple[int, ...]]:
    """What characters are cut to, to the end."""
    from tokenizers import normalizers

    cut = "NFKD" if FORMS[name][0] else "NFD"
    theirs: Any = getattr(normalizers, cut)()
    found = {}
    for code in range(0x110000):
        letter = chr(code)
        # Python knows more of them, so that few are asked for.
        if unicodedata.decomposition(letter) and code not in _HANGUL:
            parts = theirs.normalize_str(letter)
            if parts != letter:
                found[code] = tuple(map(ord, parts))
    return found


@functools.cache
def _compositions() -> tuple[tuple[int, int, int], ...]:
    from tokenizers import normalizers

    theirs: Any = normalizers.NFC()
    found = []
    for code in _decompositions("NFC"):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and theirs.normalize_str(chr(code)) == chr(code):
            first, second = (int(part, 16) for part in parts)
            found.append((first, second, code))
    return tuple(sorted(found))


@functools.cache
def _orders() -> tuple[tuple[int, int, int], ...]:
    """Where what is put on a letter goes: a first and a last character, and their order."""
    found: list[tuple[int, int, int]] = []
    for code in range(0x110000):
        order = unicodedata.combining(chr(code))
        if not order:
            continue
        if found and found[-1][1] + 1 == code and found[-1][2] == order:
            found[-1] = (found[-1][0], code, order)
        else:
            found.append((code, code, order))
    return tuple(found)


def write_tables(writer: Writer, name: str | None) -> None:
    """The tables of a form; empty ones without it."""
    cut = _decompositions(name) if name else {}
    writer.number(sum(map(len, cut.values())))
    writer.number(len(cut))
    behind = 0
    for code, parts in sorted(cut.items()):
        writer.number(code - behind)
        writer.numbers(parts)
        behind = code + 1
    orders = _orders() if name else ()
    writer.number(len(orders))
    behind = 0
    for first, last, order in orders:
        writer.number(first - behind)
        writer.number(last - first)
        writer.byte(order)
        behind = last + 1
    compositions = _compositions() if name and FORMS[name][1] else ()
    writer.number(len(compositions))
    for three in compositions:
        for code in three:
            writer.number(code)
