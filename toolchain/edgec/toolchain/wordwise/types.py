"""Types with bytes in them to types with words: what stands before a kernel's functions.

A byte in a register becomes a word with zeros above; an array of bytes in a buffer, one of the
words that they lie in. All else keeps its identifier.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgec.toolchain.webgpu.opcodes import Decoration, Op, Storage
from edgec.toolchain.webgpu.spirv import Unwritable
from edgec.toolchain.wordwise.code import Operation

__all__ = ["BYTES", "Types"]

_BYTE, _WORD = 8, 32
_MOST_SHARED = 16384
"""Bytes of workgroup memory that every Vulkan device has."""
BYTES = frozenset({39, 4448, 4449, 4450})
"""Capabilities of bytes: Int8, and 8-bit access to three kinds of memory."""
_EXTENSION = b"SPV_KHR_8bit_storage\0"
_TYPES = range(19, 40)
_CONSTANTS = (Op.CONSTANT, Op.CONSTANT_NULL, Op.CONSTANT_COMPOSITE, Op.UNDEF)
_SPECIALISED = range(48, 53)
"""Constants that are given when a kernel is loaded."""
_BUFFERS = (Storage.STORAGE_BUFFER, Storage.UNIFORM)


@dataclass(kw_only=True)
class Types:
    """What a kernel declares, and what becomes of it.

    Attributes:
        bound: the first identifier that is free.
        operations: those before the first function, as they become.
        lanes: of each type that is a byte or a vector of bytes: how many.
        of: the type of each constant and variable, as it was.
        buffers: each variable that is a buffer of bytes: lanes of its elements, and its storage.
        pointees: what each pointer type points to, as it was.
        widths: bits of each integer type.
        scalars: what each vector type is made of.
        word: the type of a word.
    """

    bound: int
    operations: list[Operation] = field(default_factory=list)
    lanes: dict[int, int] = field(default_factory=dict)
    of: dict[int, int] = field(default_factory=dict)
    buffers: dict[int, tuple[int, int]] = field(default_factory=dict)
    pointees: dict[int, int] = field(default_factory=dict)
    widths: dict[int, int] = field(default_factory=dict)
    scalars: dict[int, int] = field(default_factory=dict)
    word: int = 0
    _changed: dict[int, int] = field(default_factory=dict)
    _arrays: dict[int, tuple[int, int]] = field(default_factory=dict)
    _structs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _rooms: set[int] = field(default_factory=set)
    _strides: dict[int, int] = field(default_factory=dict)
    _values: dict[int, int] = field(default_factory=dict)
    _made: dict[tuple[int, ...], int] = field(default_factory=dict)
    _shared: int = 0

    @classmethod
    def of_module(cls, bound: int, outside: Sequence[Operation]) -> "Types":
        """Change what stands before the functions.

        Raises:
            Unwritable: bytes lie in what is no plain array, or are known only when it is loaded.
        """
        made = cls(bound=bound)
        for each in outside:
            made._look(each)
        made.word = made.word or made.fresh()
        made._find_buffers(outside)
        start = next(i for i, each in enumerate(outside) if each.op in _TYPES)
        for each in outside[:start]:
            made._head(each)
        made._words(outside)
        for each in outside[start:]:
            made._declaration(each)
        if made._shared > _MOST_SHARED:
            raise Unwritable("bytes that a workgroup shares are too many to be words")
        return made

    def fresh(self) -> int:
        """An identifier that is free."""
        self.bound += 1
        return self.bound - 1

    def type(self, identifier: int) -> int:
        """The type that stands for one."""
        return self._changed.get(identifier, identifier)

    def number(self, value: int, type: int = 0) -> int:
        """A constant of 32 bits, in every lane of a `type` that was bytes."""
        lanes = self.lanes.get(type, 1)
        one = self._one(Op.CONSTANT, self.word, value)
        return (
            one if lanes == 1 else self._one(Op.CONSTANT_COMPOSITE, self.type(type), *[one] * lanes)
        )

    def null(self, type: int) -> int:
        """Zeros of a type that was bytes."""
        return self._one(Op.CONSTANT_NULL, self.type(type))

    def pointer(self, storage: int) -> int:
        """The type of a pointer to a word."""
        key = (Op.TYPE_POINTER, storage)
        if key not in self._made:
            self._made[key] = self.fresh()
            self._add(Op.TYPE_POINTER, self._made[key], storage, self.word)
        return self._made[key]

    def _one(self, op: int, type: int, *words: int) -> int:
        key = (op, type, *words)
        if key not in self._made:
            self._made[key] = self.fresh()
            self._add(op, type, self._made[key], *words)
        return self._made[key]

    def _add(self, op: int, *words: int) -> None:
        self.operations.append(Operation(op=op, words=words))

    # --- what there is ---------------------------------------------------------------------------

    def _look(self, each: Operation) -> None:
        match each.op, each.words:
            case Op.TYPE_INT, (made, bits, signed):
                self.widths[made] = bits
                if (bits, signed) == (_WORD, 0):
                    self.word = made
                if bits == _BYTE:
                    self.lanes[made] = 1
            case Op.TYPE_VECTOR, (made, scalar, count):
                self.scalars[made] = scalar
                if scalar in self.lanes:
                    self.lanes[made] = count
            case Op.TYPE_ARRAY, (made, element, count):
                self._arrays[made] = (element, self._values.get(count, 0))
            case Op.TYPE_RUNTIME_ARRAY, (made, element):
                self._arrays[made] = (element, 0)
            case Op.TYPE_STRUCT, (made, *members):
                self._structs[made] = tuple(members)
            case Op.TYPE_POINTER, (made, _, pointee):
                self.pointees[made] = pointee
            case Op.CONSTANT, (type, made, value, *_):
                self.of[made], self._values[made] = type, value
            case Op.DECORATE, (made, Decoration.ARRAY_STRIDE, stride):
                self._strides[made] = stride
            case _:
                pass

    def _find_buffers(self, outside: Sequence[Operation]) -> None:
        for each in outside:
            if each.op != Op.VARIABLE:
                continue
            kind, made, storage = each.words[:3]
            held = self.pointees.get(kind, 0)
            if not self._has_bytes(held) or storage in (Storage.WORKGROUP, Storage.PRIVATE):
                continue
            members = self._structs.get(held, ())
            element, _ = self._arrays.get(members[0] if len(members) == 1 else 0, (0, 0))
            lanes = self.lanes.get(element, 0)
            if storage not in _BUFFERS or lanes not in (1, 2, 4):
                raise Unwritable("a kernel's bytes lie in what is no plain array")
            if self._strides.get(members[0]) != lanes:
                raise Unwritable("a kernel's bytes do not lie side by side")
            self.buffers[made] = (lanes, storage)
            self._rooms.add(members[0])

    def _has_bytes(self, type: int) -> bool:
        if type in self._arrays:
            return self._has_bytes(self._arrays[type][0])
        return type in self.lanes or any(map(self._has_bytes, self._structs.get(type, ())))

    # --- what becomes of it ----------------------------------------------------------------------

    def _head(self, each: Operation) -> None:
        """What comes before all types: what the kernel asks for, and is called."""
        words = each.words
        match each.op:
            case Op.CAPABILITY if words[0] in BYTES:
                return
            case Op.EXTENSION if struct.pack(f"<{len(words)}I", *words).startswith(_EXTENSION):
                return
            case Op.NAME | Op.DECORATE if words[0] in self.lanes:
                return
            case Op.DECORATE if words[0] in self._rooms and words[1] == Decoration.ARRAY_STRIDE:
                self._add(each.op, *words[:2], _WORD // _BYTE)
            case _:
                self.operations.append(each)

    def _words(self, outside: Sequence[Operation]) -> None:
        """Declare words and their vectors first: bytes come before them, and none comes twice."""
        self._add(Op.TYPE_INT, self.word, _WORD, 0)
        vectors = {}
        for each in outside:
            if each.op == Op.TYPE_VECTOR and each.words[1] == self.word:
                vectors[each.words[2]] = each.words[0]
        for made, count in self.lanes.items():
            self._changed[made] = vectors.setdefault(count, made) if count > 1 else self.word
        for count, made in vectors.items():
            self._add(Op.TYPE_VECTOR, made, self.word, count)
        self._made |= {(Op.TYPE_VECTOR, made): made for made in vectors.values()}

    def _declaration(self, each: Operation) -> None:
        op, words = each.op, each.words
        match op:
            case Op.TYPE_INT | Op.TYPE_VECTOR:
                is_word = words[0] == self.word or (Op.TYPE_VECTOR, words[0]) in self._made
                if words[0] not in self.lanes and not is_word:
                    self.operations.append(each)
            case Op.TYPE_ARRAY | Op.TYPE_RUNTIME_ARRAY:
                self._array(each)
            case Op.TYPE_POINTER:
                self._add(op, words[0], words[1], self.type(words[2]))
            case Op.VARIABLE:
                self._variable(each)
            case _ if op in _CONSTANTS:
                self._constant(each)
            case _ if op in _SPECIALISED and words[0] in self.lanes:
                raise Unwritable("a kernel is given bytes as constants")
            case _ if op in _TYPES and any(word in self.lanes for word in words[1:]):
                raise Unwritable("a kernel has bytes in what is no array")
            case _:
                if len(words) > 1 and op not in _TYPES:
                    self.of[words[1]] = words[0]
                self.operations.append(each)

    def _array(self, each: Operation) -> None:
        made, element, *count = each.words
        if made not in self._rooms:
            self._add(each.op, made, self.type(element), *count)
            return
        if count:
            size = self._arrays[made][1] * self.lanes[element]
            count = [self.number(-(-size // (_WORD // _BYTE)))]
        self._add(each.op, made, self.word, *count)

    def _variable(self, each: Operation) -> None:
        kind, made, storage = each.words[:3]
        held = self.pointees[kind]
        self.of[made] = kind
        if storage not in _BUFFERS and self._is_room(held):
            raise Unwritable("a kernel has bytes alike in a buffer and elsewhere")
        if storage == Storage.WORKGROUP:
            self._shared += self._size(held)
        self.operations.append(each)

    def _is_room(self, type: int) -> bool:
        return type in self._rooms or any(map(self._is_room, self._structs.get(type, ())))

    def _size(self, type: int) -> int:
        """About how many bytes a variable takes."""
        if type in self._arrays:
            element, count = self._arrays[type]
            return count * self._size(element)
        return 4 * self.lanes.get(type, 1)

    def _constant(self, each: Operation) -> None:
        type, made, *rest = each.words
        self.of[made] = type
        if type not in self.lanes:
            self.operations.append(each)
        elif each.op == Op.UNDEF:
            self._add(Op.CONSTANT_NULL, self.type(type), made)
        elif each.op == Op.CONSTANT:
            self._add(each.op, self.word, made, rest[0] & 0xFF)
        else:
            self._add(each.op, self.type(type), made, *rest)
