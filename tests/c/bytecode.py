"""Modules written by hand, for instructions that no compiler emits and damage that none makes.

The instructions and their operands come from `runtime/c/src/opcodes.h`, where they stand once.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers

__all__ = ["OPCODES", "Function", "Import", "Opcode", "Program", "moved", "ref"]

_LIST = Path(__file__).resolve().parents[2] / "runtime" / "c" / "src" / "opcodes.h"
_PREFIXES = {"CORE": b"", "F32": b"\xe0", "F64": b"\xe1"}
_NEEDS = {"CORE": 0, "F32": 1, "F64": 2}
_BYTECODE_VERSION = 17 << 16
_UNWIND = 8


@dataclass(frozen=True, kw_only=True)
class Opcode:
    """One instruction: its set, code, and operands as `opcodes.h` spells them."""

    set: str
    code: int
    name: str
    operands: tuple[str, ...]


def _read_opcodes() -> dict[str, Opcode]:
    found = {}
    for section in re.finditer(
        r"#define EDGERT_(\w+)_OPCODES\(X\)(.*?)\n\n", _LIST.read_text(), re.S
    ):
        for entry in re.finditer(r'X\(0x(\w+), \w+, "([^"]+)", "([^"]*)"\)', section[2]):
            found[entry[2]] = Opcode(
                set=section[1],
                code=int(entry[1], 16),
                name=entry[2],
                operands=tuple(re.findall(r"[>=gL]?.", entry[3])),
            )
    return found


OPCODES = _read_opcodes()
"""Every instruction by its spelling."""


def ref(index: int) -> int:
    """A reference register."""
    return 0x8000 | index


def moved(index: int) -> int:
    """A reference register that gives its reference away."""
    return 0xC000 | index


@dataclass(frozen=True, kw_only=True)
class Import:
    """A function that a program calls and the runtime has."""

    name: str
    convention: str
    optional: bool = False


@dataclass(kw_only=True)
class Function:
    """One function.

    Attributes:
        name: as it is exported; an empty name is not exported.
        convention: such as `0ii_i`.
        body: instructions as tuples: a spelling and its operands. `("block", "name")` begins a
            block; jumps name blocks, calls name functions or are an `Import`, types and constants
            stand for themselves (text, bytes), a list of registers is a list.
        words: how many 32-bit registers.
        refs: how many reference registers.
        attributes: what the module says of it, by key.
    """

    name: str
    convention: str
    body: Sequence[tuple[Any, ...]]
    words: int = 32
    refs: int = 8
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Program:
    """A module in the making; `build()` gives its bytes."""

    functions: Sequence[Function]
    name: str = "made"
    global_bytes: int = 64
    global_refs: int = 4
    types: list[str] = field(default_factory=lambda: ["i32"])
    constants: list[bytes] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    version: int = _BYTECODE_VERSION

    def build(self) -> bytes:
        """The module, without a zip wrapper."""
        code = b""
        descriptors = b""
        needs_all = 0
        for function in self.functions:
            text, blocks, needs = _Assembler(self, function).assemble()
            code += b"\0" * (-len(code) % 8)
            descriptors += struct.pack(
                "<iiIhhhh",
                *(len(code), len(text), needs, 0, blocks, function.words, function.refs),
            )
            code += text
            needs_all |= needs
        return _write(self, code, descriptors, needs_all)


class _Assembler:
    """One function's instructions to bytes, in two passes for the jumps."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.places: dict[str, int] = {}
        self.needs = _UNWIND
        self.out = bytearray()

    def assemble(self) -> tuple[bytes, int, int]:
        for _ in range(2):
            self.out = bytearray()
            for instruction in self.function.body:
                self._instruction(*instruction)
        return bytes(self.out), len(self.places), self.needs

    def _instruction(self, name: str, *operands: Any) -> None:
        if name == "bytes":  # anything, for what is wrong on purpose
            self.out += operands[0]
            return
        if name == "block":
            self.places[operands[0]] = len(self.out)
            operands = ()
        opcode = OPCODES[name]
        self.needs |= _NEEDS[opcode.set]
        self.out += _PREFIXES[opcode.set] + bytes([opcode.code])
        kinds = [kind for kind in opcode.operands if kind != "T"]
        for kind, operand in zip(kinds, operands, strict=True):
            self._operand(kind, operand)

    def _operand(self, kind: str, value: Any) -> None:
        if kind[0] in ">iIfFr":
            self._numbers("<H", [value])
        elif kind in ("=4", "g4", "g8", "gr"):
            self._numbers("<I", [value & 0xFFFFFFFF])
        elif kind == "=8":
            self._numbers("<Q", [value & 0xFFFFFFFFFFFFFFFF])
        elif kind == "t":
            self._numbers("<I", [value if isinstance(value, int) else self._type(value)])
        elif kind == "d":
            self._numbers("<I", [value if isinstance(value, int) else self._constant(value)])
        elif kind == "c":
            self._numbers("<I", [self._callee(value)])
        elif kind == "b":
            self._target(value)
        elif kind == "p":
            self._pairs(value)
        elif kind == "h":
            self._numbers("<H", [len(value)])
            for target, pairs in value:
                self._target(target)
                self._pairs(pairs)
        elif kind == "s":
            self._numbers("<H", [len(value)])
            self.out += value.encode()
        else:
            self._list(value)

    def _numbers(self, form: str, values: Iterable[int]) -> None:
        for value in values:
            self.out += struct.pack(form, value)

    def _list(self, values: Sequence[int]) -> None:
        self.out += b"\0" * (len(self.out) % 2)
        self._numbers("<H", [len(values), *values])

    def _pairs(self, pairs: Sequence[tuple[int, int]]) -> None:
        self.out += b"\0" * (len(self.out) % 2)
        self._numbers("<H", [len(pairs), *(register for pair in pairs for register in pair)])

    def _target(self, value: str | int) -> None:
        place = value if isinstance(value, int) else self.places.get(value, 0)
        self._numbers("<I", [place])

    def _type(self, name: str) -> int:
        if name not in self.program.types:
            self.program.types.append(name)
        return self.program.types.index(name)

    def _constant(self, value: bytes) -> int:
        if value not in self.program.constants:
            self.program.constants.append(value)
        return self.program.constants.index(value)

    def _callee(self, value: "str | int | Import") -> int:
        if isinstance(value, int):
            return value
        if isinstance(value, Import):
            if value not in self.program.imports:
                self.program.imports.append(value)
            return 0x80000000 | self.program.imports.index(value)
        return [function.name for function in self.program.functions].index(value)


def _write(program: Program, code: bytes, descriptors: bytes, needs: int) -> bytes:
    """The FlatBuffer with its size before it."""
    builder = flatbuffers.Builder(4096)

    def table(fields: int, entries: dict[int, tuple[str, Any]]) -> int:
        builder.StartObject(fields)
        for slot, (kind, value) in entries.items():
            if kind == "offset":
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            elif kind == "i32":
                builder.PrependInt32Slot(slot, value, 0)
            else:
                builder.PrependUint32Slot(slot, value, 0)
        return builder.EndObject()

    def vector(offsets: Sequence[int]) -> tuple[str, int]:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return "offset", builder.EndVector()

    def text(value: str) -> tuple[str, int]:
        return "offset", builder.CreateString(value)

    def signature(convention: str, attributes: dict[str, str]) -> int:
        entries = [table(2, {0: text(k), 1: text(v)}) for k, v in attributes.items()]
        return table(2, {0: text(convention), 1: vector(entries)})

    def data(value: bytes, width: int = 1, alignment: int = 16) -> tuple[str, int]:
        builder.StartVector(width, len(value) // width, alignment)
        builder.head = builder.Head() - len(value)
        builder.Bytes[builder.Head() : builder.Head() + len(value)] = value
        return "offset", builder.EndVector()

    types = [table(1, {0: text(name)}) for name in program.types]
    modules = sorted({function.name.split(".")[0] for function in program.imports})
    dependencies = []
    for name in modules:
        optional = all(f.optional for f in program.imports if f.name.startswith(f"{name}."))
        version = {"hal": 7}.get(name, 0)
        fields = {0: text(name), 1: ("u32", version), 2: ("u32", 2 if optional else 1)}
        dependencies.append(table(3, fields))
    imports = []
    for function in program.imports:
        described = signature(function.convention, {})
        flags = 2 if function.optional else 1
        fields = {0: text(function.name), 1: ("offset", described), 2: ("u32", flags)}
        imports.append(table(3, fields))
    exports = [
        table(2, {0: text(function.name), 1: ("i32", index)})
        for index, function in enumerate(program.functions)
        if function.name
    ]
    signatures = [signature(f.convention, f.attributes) for f in program.functions]
    constants = [table(5, {2: data(value)}) for value in program.constants]
    state = table(2, {0: ("i32", program.global_bytes), 1: ("i32", program.global_refs)})
    root = table(
        16,
        {
            0: text(program.name),
            2: ("u32", needs),
            4: vector(types),
            5: vector(dependencies),
            6: vector(imports),
            7: vector(exports),
            8: vector(signatures),
            9: vector(constants),
            11: ("offset", state),
            12: data(descriptors, 20, 4),
            13: ("u32", program.version),
            14: data(code),
        },
    )
    builder.Finish(root, file_identifier=b"IREE")
    output = bytes(builder.Output())
    return struct.pack("<I", len(output)) + output
