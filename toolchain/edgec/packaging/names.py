"""A model's names to identifiers that every language of a package takes."""

import re

__all__ = ["camel", "identifier", "pascal", "unique"]

# Words that C, C++, Java, Kotlin, Swift, JavaScript or TypeScript keeps for itself, and names that
# the bindings use themselves.
_WORDS = """
    abstract alignas alignof any as asm assert associatedtype async auto await bool boolean break
    byte case catch chan char class companion const constexpr constructor continue data debugger
    decltype def default defer deinit delete do double dynamic else enum error eval except export
    extends extension extern false fileprivate final finally fixed float for foreach friend from
    fun func function get global goto guard if implements import in indirect infix init inline
    inout instanceof int interface internal is it lateinit lazy let long main_ module mutable
    namespace native new nil none null nullptr object of open operator out override package
    private protected protocol public record register reified repeat required restrict rethrows
    return sealed self set short signed sizeof static strictfp struct subscript super suspend
    switch synchronized template this throw throws transient true try type typealias typedef
    typename typeof undefined union unowned unsafe unsigned using val var vararg virtual void
    volatile weak when where while with yield status model results arguments output
"""
_TAKEN = frozenset(_WORDS.split())


def identifier(text: str, fallback: str = "x") -> str:
    """Any text to an ASCII identifier in snake case that no language keeps for itself.

    `Digit reader-2` → `Digit_reader_2`, `7seg` → `_7seg` → `x_7seg`, `class` → `class_`.
    """
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")
    if not name:
        return fallback
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    return f"{name}_" if name.lower() in _TAKEN else name


def pascal(text: str) -> str:
    """The name of a type: `digit_reader` → `DigitReader`."""
    words = identifier(text).strip("_").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words if word)


def camel(text: str) -> str:
    """The name of a value in Java, Kotlin and Swift: `token_ids` → `tokenIds`."""
    name = pascal(text)
    name = name[:1].lower() + name[1:]
    return f"{name}_" if name.lower() in _TAKEN else name


def unique(names: list[str]) -> list[str]:
    """The same names, later ones that are there already numbered: `x, x` → `x, x_2`."""
    seen: set[str] = set()
    result = []
    for name in names:
        chosen, number = name, 2
        while chosen in seen:
            chosen, number = f"{name}_{number}", number + 1
        seen.add(chosen)
        result.append(chosen)
    return result
