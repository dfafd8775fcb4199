"""The characters that an atom of a regular expression takes, as `tokenizers` itself reads it.

Which letters there are is a matter of Unicode's version, and how `(?i:s)` takes the long s one of
the regular expressions' library. So the package is asked: all characters that are, or may be, in
some class in one text, from which the atom is cut out.
"""

import functools
import itertools
import unicodedata
from typing import Any

__all__ = ["Ranges", "any_case", "characters", "expands", "trimmed"]

Ranges = tuple[tuple[int, int], ...]
"""Characters, as pairs of a first and a last one, in order, with others between them."""

_LAST = 0x10FFFF
_ASKED = (range(0xD800), range(0xE000, 0x34000), range(0xE0000, 0xE0200))
"""Planes where characters are; of what lies behind each, one character speaks for all."""
_ALIKE = 256
"""So many ideographs, syllables or private characters in a row are alike but for the outermost."""


@functools.cache
def characters(atom: str) -> Ranges:
    """What an atom such as `\\p{L}` or `[^\\r\\n]` takes; none where it takes none."""
    from tokenizers import Regex, pre_tokenizers

    pieces = pre_tokenizers.Split(Regex(f"(?:{atom})+"), "isolated").pre_tokenize_str(_text())
    # Runs of what is taken, and between them of what is not.
    begins = not pre_tokenizers.Split(Regex(atom), "removed").pre_tokenize_str(_text()[0])
    runs = (place for _, place in pieces[0 if begins else 1 :: 2])
    places = _places()
    return tuple((places[begin][0], places[end - 1][1]) for begin, end in runs)


@functools.cache
def _places() -> tuple[tuple[int, int], ...]:
    """The characters that each character of `_text` speaks for."""
    places: list[tuple[int, int]] = []
    for _, run in itertools.groupby(itertools.chain(*_ASKED), key=_kind):
        codes = list(run)
        if unicodedata.category(chr(codes[0])) in ("Lo", "Co") and len(codes) > 3 * _ALIKE:
            middle = (codes[_ALIKE], codes[-_ALIKE - 1])
            codes, rest = codes[:_ALIKE], codes[-_ALIKE:]
            places += [(code, code) for code in codes]
            places.append(middle)
            codes = rest
        places += [(code, code) for code in codes]
    places += [(0x34000, 0xDFFFF), (0xE0200, 0xEFFFF), (0xF0000, _LAST)]
    return tuple(sorted(places))


def _kind(code: int) -> tuple[str, int]:
    return unicodedata.category(chr(code)), sum(code >= plane.start for plane in _ASKED)


@functools.cache
def _text() -> str:
    return "".join(chr(first) for first, _ in _places())


def any_case(letter: str) -> Ranges:
    """A letter, and what `(?i:…)` takes beside it."""
    from tokenizers import Regex, pre_tokenizers

    finder: Any = pre_tokenizers.Split(Regex(f"(?i:\\x{{{ord(letter):X}}})"), "removed")
    others = (other for other in _folded().get(letter.casefold(), ()) if other != letter)
    found = [letter, *(other for other in others if not finder.pre_tokenize_str(other))]
    return tuple((ord(each), ord(each)) for each in sorted(found))


def expands(letters: str) -> bool:
    """Whether, whatever their case, these letters take one character that stands for them all."""
    from tokenizers import Regex, pre_tokenizers

    finder: Any = pre_tokenizers.Split(Regex(f"(?i:{letters})"), "removed")
    alike = _folded().get(letters.casefold(), ())
    return any(not finder.pre_tokenize_str(letter) for letter in alike)


@functools.cache
def _folded() -> dict[str, list[str]]:
    """Characters by what they are without case, where that is something else for one of them."""
    found: dict[str, list[str]] = {}
    for code in itertools.chain(*_ASKED):
        letter = chr(code)
        if letter.casefold() != letter:
            found.setdefault(letter.casefold(), [letter.casefold()]).append(letter)
    return found


@functools.cache
def trimmed() -> Ranges:
    """What Python's `str.strip` takes off, and so Jinja's `trim`."""
    return tuple((code, code) for code in range(_LAST + 1) if chr(code).isspace())
