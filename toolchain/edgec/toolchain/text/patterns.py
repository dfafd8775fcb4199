"""Regular expressions of tokenizers to programs of `runtime/c/text/pattern.c`.

An atom that takes one character is a set of characters, whatever it looks like; so all that is
read here is what puts atoms together.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from edgec.toolchain.text.characters import Ranges, any_case, characters, expands
from edgec.toolchain.text.refusal import NotForApps

__all__ = ["Instruction", "compile_pattern", "literal"]

Instruction = tuple[int, ...]
"""An operation and its numbers, as they are written."""

_MATCH, _SPAN, _SPLIT, _JUMP, _LOOK = range(5)
_STANDS, _STANDS_NOT, _ONCE = range(3)
_ENDLESS = 0xFFFFFFFF
_MOST = 4000
"""Instructions of a pattern."""

_ESCAPE = re.compile(r"\\(?:[pP]\{\^?\w+\}|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)")
_CONTROLS = {"r": "\r", "n": "\n", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_NO_ATOM = set("bBAzZGKRXkgy123456789")
"""Letters that behind a backslash stand for a place, a group or several characters."""


@dataclass(frozen=True, kw_only=True)
class _Node:
    """A piece of a pattern: what it takes at least, and its code from a place on."""

    least: int
    code: Callable[[int], list[Instruction]]
    atom: Ranges | None = None
    """Of one character: which."""


@dataclass(kw_only=True)
class _Reader:
    text: str
    classes: list[Ranges]
    at: int = 0
    ignores_case: bool = False
    letters: str = field(default="")

    def peek(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def take(self, word: str) -> bool:
        found = self.peek(word)
        self.at += len(word) if found else 0
        return found

    def fail(self, what: str) -> NotForApps:
        return NotForApps(f"its pattern {self.text!r} has {what}, which apps cannot match")


def compile_pattern(text: str, classes: list[Ranges]) -> list[Instruction]:
    """The program of a pattern; sets of characters that it needs are put to `classes`.

    Raises:
        NotForApps: it has something that the program cannot do, or may take nothing.
    """
    reader = _Reader(text=text, classes=classes)
    node = _alternatives(reader)
    if reader.at < len(text):
        raise reader.fail(f"{text[reader.at]!r} at {reader.at}")
    if node.least == 0:
        raise reader.fail("a match of no characters")
    code = [*node.code(0), (_MATCH,)]
    if len(code) > _MOST:
        raise reader.fail(f"more than {_MOST} steps")
    return code


def literal(text: str) -> str:
    """A pattern that takes this text alone."""
    return "".join(f"\\x{{{ord(letter):X}}}" for letter in text)


def _alternatives(reader: _Reader) -> _Node:
    options = [_sequence(reader)]
    while reader.take("|"):
        options.append(_sequence(reader))
    node = options[-1]
    for option in reversed(options[:-1]):
        node = _either(option, node)
    return node


def _either(first: _Node, second: _Node) -> _Node:
    def code(at: int) -> list[Instruction]:
        one = first.code(at + 1)
        middle = at + 1 + len(one) + 1
        other = second.code(middle)
        return [(_SPLIT, at + 1, middle), *one, (_JUMP, middle + len(other)), *other]

    return _Node(least=min(first.least, second.least), code=code)


def _sequence(reader: _Reader) -> _Node:
    nodes: list[_Node] = []
    reader.letters = ""
    while reader.at < len(reader.text) and not (reader.peek("|") or reader.peek(")")):
        nodes.append(_repeated(reader, _one(reader)))

    def code(at: int) -> list[Instruction]:
        made: list[Instruction] = []
        for node in nodes:
            made += node.code(at + len(made))
        return made

    if len(nodes) == 1:
        return nodes[0]
    return _Node(least=sum(node.least for node in nodes), code=code)


def _one(reader: _Reader) -> _Node:
    """An atom or a group."""
    if reader.peek("("):
        return _group(reader)
    begin = reader.at
    if reader.peek("["):
        _skip_class(reader)
        reader.letters = ""
        return _atom(reader, reader.text[begin : reader.at])
    letter = reader.text[begin]
    if letter == "\\":
        found = _ESCAPE.match(reader.text, begin)
        if found is None or found[0][1] in _NO_ATOM:
            raise reader.fail(f"{reader.text[begin : begin + 2]!r}")
        reader.at = found.end()
        reader.letters = ""
        return _atom(reader, found[0])
    if letter in "^$*+?":
        raise reader.fail(f"{letter!r} at {begin}")
    reader.at += 1
    if reader.ignores_case:
        reader.letters = reader.letters + letter if letter.isalpha() else ""
        if len(reader.letters) > 1 and expands(re.escape(reader.letters)):
            raise reader.fail(f"letters in any case that one character stands for, {letter!r}")
    return _atom(reader, letter)


def _atom(reader: _Reader, source: str) -> _Node:
    letter = _letter(source)
    if letter is None:
        found = characters(f"(?i:{source})" if reader.ignores_case else source)
    elif reader.ignores_case:
        found = any_case(letter)
    else:
        found = ((ord(letter), ord(letter)),)
    if found not in reader.classes:
        reader.classes.append(found)
    number = reader.classes.index(found)
    return _Node(least=1, code=lambda _: [(_SPAN, 1, number, 1, 1)], atom=found)


def _letter(source: str) -> str | None:
    """The one character that a source stands for; None where it is a class."""
    if len(source) == 1:
        return None if source == "." else source
    if source[1] in _CONTROLS:
        return _CONTROLS[source[1]]
    if source[1] in "xu":
        return chr(int(source[2:].strip("{}"), 16))
    return None if source[1].isalnum() or source[0] != "\\" else source[1]


def _skip_class(reader: _Reader) -> None:
    depth = 0
    while reader.at < len(reader.text):
        letter = reader.text[reader.at]
        reader.at += 2 if letter == "\\" else 1
        depth += (letter == "[") - (letter == "]")
        if depth == 0:
            return
    raise reader.fail("a [ without its ]")


def _group(reader: _Reader) -> _Node:
    outer = reader.ignores_case
    kind = None
    if reader.take("(?i:"):
        reader.ignores_case = True
    elif reader.take("(?="):
        kind = _STANDS
    elif reader.take("(?!"):
        kind = _STANDS_NOT
    elif reader.take("(?>"):
        kind = _ONCE
    elif not reader.take("(?:"):
        if reader.peek("(?") or reader.peek("(*"):
            raise reader.fail(f"{reader.text[reader.at : reader.at + 4]!r}")
        reader.take("(")
    inner = _alternatives(reader)
    if not reader.take(")"):
        raise reader.fail("a ( without its )")
    reader.ignores_case = outer
    reader.letters = ""
    return inner if kind is None else _looked(inner, kind)


def _looked(inner: _Node, kind: int) -> _Node:
    def code(at: int) -> list[Instruction]:
        body = inner.code(at + 1)
        return [(_LOOK, kind, at + len(body) + 2), *body, (_MATCH,)]

    return _Node(least=inner.least if kind == _ONCE else 0, code=code)


def _repeated(reader: _Reader, node: _Node) -> _Node:
    """The node as often as what stands behind it says."""
    low, high = 1, 1
    is_count = False
    if reader.take("*"):
        low, high = 0, _ENDLESS
    elif reader.take("+"):
        low, high = 1, _ENDLESS
    elif reader.take("?"):
        low, high = 0, 1
    elif (found := _COUNT.match(reader.text, reader.at)) and (found[1] or found[3]):
        reader.at = found.end()
        is_count = True
        low = int(found[1] or 0)
        high = low if not found[2] else int(found[3]) if found[3] else _ENDLESS
    else:
        return node
    reader.letters = ""
    is_once = not is_count and reader.take("+")
    if any(reader.peek(word) for word in "*+?") or _COUNT.match(reader.text, reader.at):
        raise reader.fail(f"{reader.text[reader.at]!r} behind a repetition")
    if low > high or high == 0:
        raise reader.fail("a repetition that cannot be")
    if node.atom is not None:
        number = reader.classes.index(node.atom)
        span = (_SPAN, int(is_once), number, low, high)
        return _Node(least=low, code=lambda _: [span])
    if node.least == 0:
        raise reader.fail("a repetition of what may take nothing")
    many = _many(node, low, high)
    return _looked(many, _ONCE) if is_once else many


def _many(node: _Node, low: int, high: int) -> _Node:
    def code(at: int) -> list[Instruction]:
        made: list[Instruction] = []
        for _ in range(low):
            made += node.code(at + len(made))
        if high == _ENDLESS:
            here = at + len(made)
            body = node.code(here + 1)
            return [*made, (_SPLIT, here + 1, here + len(body) + 2), *body, (_JUMP, here)]
        # Each more only behind the one before; all go to the same end, known once all are there.
        size = len(node.code(0)) + 1
        end = at + len(made) + size * (high - low)
        for _ in range(high - low):
            here = at + len(made)
            made += [(_SPLIT, here + 1, end), *node.code(here + 1)]
        return made

    return _Node(least=low * node.least, code=code)
