"""What the Swift of a package calls is what the C headers beside it declare.

Swift is compiled where there is a compiler for it (`test_swift.py`, `test_swift_text.py`); this
reads both sides as text, everywhere: names, how many arguments, what each `&result` points at,
fields of structs and parameters of callbacks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from edgec.packaging.bindings import bind
from edgec.packaging.c import header, text_values
from edgec.packaging.edgert_sources import write_edgert
from edgec.packaging.swift import swift_binding, swift_text
from edgec.runtime import DType, Signature, TensorSpec

NAMES = re.compile(r"\b(?:(?:edgert|tiny|EDGERT)_\w+|tiny)\b")
# How Swift sees what a parameter points at, where the caller gives `&variable`.
POINTED = {
    "size_t": "Int",
    "int32_t": "Int32",
    "int32_t *": "UnsafeMutablePointer<Int32>?",
    "char *": "UnsafeMutablePointer<CChar>?",
    "void *": "UnsafeMutableRawPointer?",
}
FIELDS = {"uint32_t": "UInt32", "float": "Float", "edgert_text_finish": "edgert_text_finish"}


@dataclass
class Headers:
    """What C headers declare.

    Attributes:
        functions: a name → the types of its parameters; of callbacks, too.
        structs: a name → its fields, each with its type.
        names: all else that is declared: types, constants.
    """

    functions: dict[str, list[str]] = field(default_factory=dict)
    structs: dict[str, dict[str, str]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """The headers of a language model's package, and its two files of Swift."""
    folder = tmp_path_factory.mktemp("edgert")
    write_edgert(folder, text=True)
    tokens = TensorSpec(name="tokens", shape=(8,), dtype=DType.I32)
    token = TensorSpec(name="token", shape=(), dtype=DType.I32)
    functions = bind([Signature.flat("prefill_8", (tokens,), (token, tokens))])
    values = dict.fromkeys(("title", "edgec", "opening", "modules_note", "targets", "open"), "")
    values |= {"name": "tiny", "NAME": "TINY", "Type": "Tiny"}
    values |= text_values(values)
    own = header(functions, values)
    declared = [own, *((folder / f"{name}.h").read_text() for name in ("edgert", "edgert_text"))]
    binding = swift_binding(values, functions, {"os(macOS)": "tiny"})
    return "\n".join(declared), binding, swift_text(values)


def test_swift_calls_what_the_headers_declare(sides: tuple[str, str, str]) -> None:
    c, *files = sides
    assert list(wrong(c, *files)) == []
    called = {name for swift in files for name, *_ in calls(swift, read(c))}
    # Nothing of what an app is to have was passed over.
    assert called >= {"tiny_text", "tiny_prefill_8", "edgert_text_save", "edgert_text_chat"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("edgert_text_interrupt(", "edgert_text_stop("),
        ("int special,", ""),
        ("void **out_data,\n", "int32_t **out_data,\n"),
        ("size_t *out_size", "uint32_t *out_size"),
        ("edgert_text_stats *stats,", "edgert_text_finish *stats,"),
        ("uint32_t without_guesses;", "uint32_t guesses;"),
        ("uint32_t limit; ", "float limit; "),
        ("const char *role;", "const char *who;"),
        ("(void *user, int32_t last, uint32_t *mask", "(int32_t last, uint32_t *mask"),
        ("EDGERT_TEXT_SLIDE", "EDGERT_TEXT_GO_ON"),
        ("int32_t token[1],\n    int32_t", "float token[1],\n    int32_t"),
        ("tiny_prove(", "tiny_try("),
    ],
)
def test_another_header_is_noticed(sides: tuple[str, str, str], before: str, after: str) -> None:
    c, *files = sides
    assert before in c
    found = list(wrong(c.replace(before, after), *files))
    assert found


def wrong(c: str, binding: str, text: str) -> Iterator[str]:
    """What Swift has that the headers have not, or otherwise."""
    headers = read(c)
    for swift in (binding, text):
        yield from wrong_in(headers, re.sub(r"//.*", "", swift))
    for callback, name in (("edgert_text_told", "tell"), ("edgert_text_allow", "allow")):
        taken = re.search(rf"\b{name}(?:: {callback})? = \{{ ([\w, ]+) in", text)
        if taken is None or taken[1].count(",") + 1 != len(headers.functions.get(callback, ())):
            yield f"{callback} takes {headers.functions.get(callback)}"


def wrong_in(headers: Headers, swift: str) -> Iterator[str]:
    """The same in one file, callbacks apart."""
    for name in sorted(set(NAMES.findall(swift)) - headers.names):
        yield f"{name} is not declared"
    for name, place, arguments in calls(swift, headers):
        types = headers.functions[name]
        if len(arguments) != len(types):
            yield f"{name} takes {types}, and is given {arguments}"
            continue
        for given, wanted in zip(arguments, types, strict=True):
            found = pointed_at(given, swift, place)
            if found is not None and found != seen_from_swift(wanted, headers):
                yield f"{name} takes {wanted}, and {given} is {found}"
    yield from wrong_fields(headers, swift)


def wrong_fields(headers: Headers, swift: str) -> Iterator[str]:
    """Fields of structs that are not there, or of another type."""
    kinds = dict(re.findall(r"var (\w+) = (edgert_\w+)\(\)", swift))
    for variable, name, value in re.findall(r"\b(\w+)\.(\w+)( = .*)?", swift):
        kind = kinds.get(variable)
        if kind is None or variable == "error":
            continue
        found = headers.structs[kind].get(name)
        made = re.match(r" = (?:try whole|(UInt32)\()", value)
        if found is None or (made and FIELDS.get(found) != "UInt32"):
            yield f"{kind}.{name} is {found}"
    for kind, labels in re.findall(r"(edgert_\w+)\(\s*(\w+: [^()]*?)\)", swift):
        if re.findall(r"(\w+):", labels) != list(headers.structs[kind]):
            yield f"{kind} has {headers.structs[kind]}"


def read(c: str) -> Headers:
    """What headers declare, by their text."""
    found = Headers()
    c = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", c, flags=re.DOTALL | re.MULTILINE)
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", c, re.DOTALL):
        fields = (line.strip().rpartition(" ") for line in body.split(";") if line.strip())
        found.structs[name] = {
            label.lstrip("*").split("[")[0]: kind + " *" * label.count("*")
            for kind, _, label in fields
        }
    for name, given in re.findall(r"(\w+)\)?\(([^(){};]*)\);", c):
        words = [" ".join(one.split()) for one in given.split(",")]
        found.functions[name] = [type_of(one) for one in words if one != "void"]
    found.names = set(NAMES.findall(c))
    return found


def type_of(parameter: str) -> str:
    """`const char *text` → `const char *`; an array as the pointer it is."""
    kind, name = re.fullmatch(r"(.*?[ *])(\w+(?:\[.*\])?)", parameter).groups()  # type: ignore[union-attr]
    return f"{kind.strip()}{' *' if '[' in name else ''}"


def calls(swift: str, headers: Headers) -> Iterator[tuple[str, int, list[str]]]:
    """Each call of a declared function: its name, its place, and its arguments."""
    for found in re.finditer(r"\b(\w+)\(", swift):
        if found[1] not in headers.functions:
            continue
        depth, arguments = 1, [""]
        for letter in swift[found.end() :]:
            depth += (letter in "([{") - (letter in ")]}")
            if depth == 0:
                break
            if letter == "," and depth == 1:
                arguments.append("")
            else:
                arguments[-1] += letter
        yield found[1], found.start(), [argument.strip() for argument in arguments]


def pointed_at(argument: str, swift: str, place: int) -> str | None:
    """The type of what an argument points at: of `&x`, or of what a closure is given."""
    asked = re.search(r"typealias Ask = \((.*?)\) ->", swift, re.DOTALL)
    if asked and argument in ("chosen", "listener", "stats", "error"):
        types = [one.strip() for one in asked[1].split(",")]
        kind = types[("chosen", "listener", "stats", "error").index(argument)]
        return re.sub(r"Unsafe(?:Mutable)?Pointer<(\w+)>", r"\1", kind)
    if not argument.startswith("&"):
        return None
    name = argument[1:]
    *_, (kind, value) = re.findall(rf"var {name}(?:: ([^\n=]+)| = ([^\n]+))", swift[:place])
    if kind:
        return kind.strip()
    return re.sub(r"^0$", "Int", re.sub(r"\[(\w+)\]\(.*|\(\)$", r"\1", value))


def seen_from_swift(c: str, headers: Headers) -> str:
    """What a C pointer points at, as Swift calls it."""
    whole = c.removeprefix("const ")
    if whole == "void *":
        return "UnsafeMutableRawPointer"
    kind = whole.removesuffix("*").strip()
    if kind.endswith(" *") and kind.removesuffix(" *") in headers.names:
        return "OpaquePointer?"
    return POINTED.get(kind, kind)
