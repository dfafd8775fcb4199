"""The words of a SPIR-V module to its types, constants, variables and blocks.

Only compute kernels: entry points whose function takes nothing, without calls of functions. What a
kernel's text refers to is read; whether it can be said in another language, others decide.
"""

import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from edgec.runtime.errors import CompileError
from edgec.toolchain.spirv_words import operations
from edgec.toolchain.webgpu.opcodes import Decoration, Mode, Op, Storage, name_of

__all__ = [
    "Block",
    "Entry",
    "Instruction",
    "Kernels",
    "Type",
    "Unwritable",
    "Variable",
    "read",
    "refusing",
]

_TYPES = {
    Op.TYPE_VOID: "void",
    Op.TYPE_BOOL: "bool",
    Op.TYPE_INT: "int",
    Op.TYPE_FLOAT: "float",
    Op.TYPE_VECTOR: "vector",
    Op.TYPE_ARRAY: "array",
    Op.TYPE_RUNTIME_ARRAY: "room",
    Op.TYPE_STRUCT: "struct",
    Op.TYPE_POINTER: "pointer",
    Op.TYPE_FUNCTION: "function",
}
_WIDTHS = {"int": (8, 16, 32, 64), "float": (16, 32, 64)}
_CONSTANTS = (
    Op.CONSTANT,
    Op.CONSTANT_TRUE,
    Op.CONSTANT_FALSE,
    Op.CONSTANT_COMPOSITE,
    Op.CONSTANT_NULL,
    Op.UNDEF,
)
_PASSED_OVER = (
    *(Op.SOURCE_CONTINUED, Op.SOURCE, Op.SOURCE_EXTENSION, Op.NAME, Op.MEMBER_NAME, Op.STRING),
    *(Op.LINE, Op.NO_LINE, Op.EXTENSION, Op.EXT_INST_IMPORT, Op.MEMORY_MODEL, Op.CAPABILITY),
    *(Op.MODULE_PROCESSED,),
)
_WITHOUT_RESULT = (
    *(Op.STORE, Op.CONTROL_BARRIER, Op.MEMORY_BARRIER, Op.LOOP_MERGE, Op.SELECTION_MERGE),
    *(Op.BRANCH, Op.BRANCH_CONDITIONAL, Op.SWITCH, Op.KILL, Op.RETURN, Op.RETURN_VALUE),
    *(Op.UNREACHABLE, Op.LABEL, Op.LINE, Op.NO_LINE),
)
_ENDS = (
    *(Op.BRANCH, Op.BRANCH_CONDITIONAL, Op.SWITCH, Op.KILL, Op.RETURN, Op.RETURN_VALUE),
    Op.UNREACHABLE,
)


class Unwritable(CompileError):
    """A kernel holds what another language has no words for."""


@dataclass(frozen=True, kw_only=True)
class Type:
    """A type.

    Attributes:
        kind: `void`, `bool`, `int`, `float`, `vector`, `array`, `room` (an array as long as its
            buffer), `struct`, `pointer` or `function`.
        bits: of a number.
        count: elements of a vector or array.
        element: the type in a vector, array, room or pointer.
        members: the types in a struct.
        storage: where what a pointer points to lies.
    """

    kind: str
    bits: int = 0
    count: int = 1
    element: "Type | None" = None
    members: tuple["Type", ...] = ()
    storage: int = -1

    @property
    def inner(self) -> "Type":
        """The element's type; for a number itself."""
        return self.element or self


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One operation: its result's identifier and type where it has one, and its other words."""

    op: int
    result: int = 0
    type: Type | None = None
    words: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Block:
    """A label, what follows it, and how it ends; `merge` is what structure it begins."""

    label: int
    body: tuple[Instruction, ...]
    merge: Instruction | None
    end: Instruction


@dataclass(frozen=True, kw_only=True)
class Variable:
    """Memory by name.

    Attributes:
        type: what it holds.
        storage: where it lies.
        initial: the constant that it begins with; 0 for none.
    """

    id: int
    type: Type
    storage: int
    initial: int


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kernel: its name, the invocations of a workgroup, its blocks in order, its variables."""

    name: str
    size: tuple[int, int, int]
    blocks: tuple[Block, ...]
    variables: tuple[Variable, ...]


@dataclass(kw_only=True)
class Kernels:
    """What a module holds.

    Attributes:
        constants: by identifier.
        variables: those outside of functions, by identifier.
        decorations: words by identifier (of a type, too) and decoration.
        members: likewise by identifier, member and decoration.
        type_ids: which identifier a struct has, to find what is said of its members.
    """

    entries: list[Entry] = field(default_factory=list)
    types: dict[int, Type] = field(default_factory=dict)
    type_ids: dict[int, int] = field(default_factory=dict)
    constants: dict[int, Instruction] = field(default_factory=dict)
    variables: dict[int, Variable] = field(default_factory=dict)
    decorations: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    members: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict)

    def number(self, identifier: int) -> int:
        """The value of an integer constant.

        Raises:
            Unwritable: it is none.
        """
        constant = self.constants.get(identifier)
        if constant is None or constant.op not in (Op.CONSTANT, Op.CONSTANT_NULL):
            raise Unwritable("a kernel has a size that is known only when it runs")
        return constant.words[0] if constant.words else 0


@dataclass(kw_only=True)
class _Reading:
    """Entry points and sizes, which come before the functions they belong to."""

    kernels: Kernels = field(default_factory=Kernels)
    names: dict[int, list[str]] = field(default_factory=dict)
    sizes: dict[int, tuple[int, int, int]] = field(default_factory=dict)


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Refuse words that lead nowhere: identifiers without a meaning, operands that are missing.

    Raises:
        CompileError: such a word was met.
    """
    try:
        yield
    except (LookupError, ValueError) as error:
        raise CompileError(f"a kernel's SPIR-V is damaged: {error!r}") from error
    except RecursionError:
        raise CompileError("a kernel's SPIR-V is damaged: it is nested without end") from None


def read(data: bytes) -> Kernels:
    """Read a module.

    Raises:
        CompileError: these are no SPIR-V words, or lead nowhere.
        Unwritable: it holds operations that no kernel of ours is made of.
    """
    with refusing():
        return _read(data)


def _read(data: bytes) -> Kernels:
    reading = _Reading()
    stream = operations(data)
    for op, operands in stream:
        if op == Op.FUNCTION:
            _function(reading, operands[1], stream)
        else:
            _outside(reading, op, operands)
    return reading.kernels


def _outside(reading: _Reading, op: int, words: tuple[int, ...]) -> None:
    """Read what stands before the functions."""
    kernels = reading.kernels
    if op in _PASSED_OVER:
        return
    if op in _TYPES:
        made = _type(kernels, Op(op), words)
        kernels.types[words[0]] = made
        kernels.type_ids[id(made)] = words[0]
    elif op in _CONSTANTS:
        kernels.constants[words[1]] = _instruction(kernels.types, op, words)
    elif op == Op.VARIABLE:
        kernels.variables[words[1]] = _variable(kernels, words)
    elif op == Op.DECORATE:
        kernels.decorations[words[0], words[1]] = words[2:]
    elif op == Op.MEMBER_DECORATE:
        kernels.members[words[0], words[1], words[2]] = words[3:]
    elif op == Op.ENTRY_POINT:
        reading.names.setdefault(words[1], []).append(_text(words[2:]))
    elif op == Op.EXECUTION_MODE:
        if words[1] == Mode.LOCAL_SIZE:
            reading.sizes[words[0]] = (words[2], words[3], words[4])
    else:
        raise Unwritable(f"a kernel is written with {name_of(op)}")


def _type(kernels: Kernels, op: Op, words: tuple[int, ...]) -> Type:
    types, kind = kernels.types, _TYPES[op]
    match op:
        case Op.TYPE_INT | Op.TYPE_FLOAT:
            if words[1] not in _WIDTHS[kind]:
                raise Unwritable(f"a kernel computes in {kind}s of {words[1]} bits")
            return Type(kind=kind, bits=words[1])
        case Op.TYPE_BOOL:
            return Type(kind=kind, bits=1)
        case Op.TYPE_VECTOR:
            if types[words[1]].kind not in ("bool", "int", "float") or words[2] not in (2, 3, 4):
                raise Unwritable(f"a kernel has vectors of {words[2]} {types[words[1]].kind}s")
            return Type(kind=kind, element=types[words[1]], count=words[2])
        case Op.TYPE_ARRAY:
            return Type(kind=kind, element=types[words[1]], count=kernels.number(words[2]))
        case Op.TYPE_RUNTIME_ARRAY:
            return Type(kind=kind, element=types[words[1]], count=0)
        case Op.TYPE_STRUCT:
            return Type(kind=kind, members=tuple(types[word] for word in words[1:]))
        case Op.TYPE_POINTER:
            return Type(kind=kind, element=types[words[2]], storage=words[1])
        case _:
            return Type(kind=kind)


def _variable(kernels: Kernels, words: tuple[int, ...]) -> Variable:
    pointer = kernels.types[words[0]]
    held, storage = pointer.inner, words[2]
    said = (kernels.type_ids[id(held)], int(Decoration.BUFFER_BLOCK))
    if storage == Storage.UNIFORM and said in kernels.decorations:
        # SPIR-V 1.0 says so of what later versions call a storage buffer.
        storage = int(Storage.STORAGE_BUFFER)
    initial = words[3] if len(words) > 3 else 0
    return Variable(id=words[1], type=held, storage=storage, initial=initial)


def _instruction(types: Mapping[int, Type], op: int, words: tuple[int, ...]) -> Instruction:
    if op in _WITHOUT_RESULT:
        return Instruction(op=op, words=words)
    return Instruction(op=op, type=types[words[0]], result=words[1], words=words[2:])


def _function(
    reading: _Reading, identifier: int, stream: Iterator[tuple[int, tuple[int, ...]]]
) -> None:
    """Read a function; only those that are entry points are kept."""
    kernels = reading.kernels
    blocks: list[Block] = []
    variables: list[Variable] = []
    label, merge, body = 0, None, list[Instruction]()
    for op, words in stream:
        if op == Op.FUNCTION_END:
            break
        if op in (Op.LINE, Op.NO_LINE):
            continue
        if op not in Op._value2member_map_:
            raise Unwritable(f"a kernel is written with {name_of(op)}")
        if op == Op.VARIABLE:
            variables.append(_variable(kernels, words))
        elif op == Op.LABEL:
            label, merge, body = words[0], None, []
        elif op in (Op.LOOP_MERGE, Op.SELECTION_MERGE):
            merge = Instruction(op=op, words=words)
        elif op in _ENDS:
            end = Instruction(op=op, words=words)
            blocks.append(Block(label=label, body=tuple(body), merge=merge, end=end))
        else:
            body.append(_instruction(kernels.types, op, words))
    else:
        raise CompileError("a kernel's SPIR-V is cut off")
    for name in reading.names.get(identifier, ()):
        if identifier not in reading.sizes:
            raise Unwritable(f"the kernel {name} does not say how large its workgroups are")
        kernels.entries.append(
            Entry(
                name=name,
                size=reading.sizes[identifier],
                blocks=tuple(blocks),
                variables=tuple(variables),
            )
        )


def _text(words: tuple[int, ...]) -> str:
    data = struct.pack(f"<{len(words)}I", *words)
    return data[: data.index(b"\0")].decode()
