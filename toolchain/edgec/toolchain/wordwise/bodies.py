"""Operations on bytes to operations on words: what stands in a kernel's functions.

A byte is held as a word with zeros above, so that most operations stay as they are; what is signed
is told so first, and what may be larger than a byte is cut off behind it. Of a buffer whole words
are read. A byte is written by two atomic operations, which leave the word's other bytes to the
threads that write those; where a kernel reads a buffer that it writes so, it reads atomically, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgec.toolchain.webgpu.opcodes import Extended, Op, name_of
from edgec.toolchain.webgpu.spirv import Unwritable
from edgec.toolchain.wordwise.code import Operation
from edgec.toolchain.wordwise.types import Types

__all__ = ["Bodies"]

_ATOMIC_LOAD, _ATOMIC_STORE = 227, 228
_DEVICE = 1
"""The scope of atomic operations: all threads of the device."""
_BYTE, _WORD = 8, 32

_SAME = frozenset(
    {
        *(Op.LOAD, Op.STORE, Op.COPY_OBJECT, Op.PHI, Op.SELECT),
        *(Op.COMPOSITE_CONSTRUCT, Op.COMPOSITE_EXTRACT, Op.COMPOSITE_INSERT, Op.VECTOR_SHUFFLE),
        *(Op.VECTOR_EXTRACT_DYNAMIC, Op.VECTOR_INSERT_DYNAMIC),
        *(Op.BITWISE_AND, Op.BITWISE_OR, Op.BITWISE_XOR, Op.U_DIV, Op.U_MOD),
        *(Op.SHIFT_RIGHT_LOGICAL, Op.I_EQUAL, Op.I_NOT_EQUAL, Op.CONVERT_U_TO_F),
        *(Op.U_GREATER_THAN, Op.U_GREATER_THAN_EQUAL, Op.U_LESS_THAN, Op.U_LESS_THAN_EQUAL),
    }
)
"""Right for words with zeros above as they are."""
_GROWING = frozenset(
    {
        *(Op.I_ADD, Op.I_SUB, Op.I_MUL, Op.S_NEGATE, Op.NOT, Op.SHIFT_LEFT_LOGICAL),
        *(Op.CONVERT_F_TO_U, Op.CONVERT_F_TO_S),
    }
)
"""Their results are cut off."""
_SIGNED = frozenset(
    {
        *(Op.S_DIV, Op.S_REM, Op.S_MOD, Op.SHIFT_RIGHT_ARITHMETIC, Op.CONVERT_S_TO_F),
        *(Op.S_GREATER_THAN, Op.S_GREATER_THAN_EQUAL, Op.S_LESS_THAN, Op.S_LESS_THAN_EQUAL),
    }
)
"""Their operands are told to be signed, and results that are bytes are cut off."""
_SIGNED_EXTENDED = (
    Extended.S_ABS,
    Extended.S_SIGN,
    Extended.S_MIN,
    Extended.S_MAX,
    Extended.S_CLAMP,
)
_SAME_EXTENDED = (Extended.U_MIN, Extended.U_MAX, Extended.U_CLAMP)
_WITH_LITERALS = {
    Op.LOAD: 1,
    Op.COMPOSITE_EXTRACT: 1,
    Op.COMPOSITE_INSERT: 2,
    Op.VECTOR_SHUFFLE: 2,
}
"""How many of an operation's operands are values, where not all."""
_WITHOUT_RESULT = frozenset(
    {
        *(Op.STORE, Op.CONTROL_BARRIER, Op.MEMORY_BARRIER, Op.LOOP_MERGE, Op.SELECTION_MERGE),
        *(Op.BRANCH, Op.BRANCH_CONDITIONAL, Op.SWITCH, Op.KILL, Op.RETURN, Op.RETURN_VALUE),
        *(Op.UNREACHABLE, Op.LINE, Op.NO_LINE, Op.FUNCTION_END),
    }
)
_PLAIN = _WITHOUT_RESULT - {Op.STORE, Op.RETURN_VALUE}
_CHAINS = (Op.ACCESS_CHAIN, Op.IN_BOUNDS_ACCESS_CHAIN)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A pointer into a buffer of bytes: `path` leads from the variable to an element or lane."""

    variable: int
    path: tuple[int, ...]
    lanes: int
    storage: int


@dataclass(kw_only=True)
class Bodies:
    """The functions of a module.

    Attributes:
        types: what stands before them; constants that are needed are added to it.
        operations: they themselves, as they become.
    """

    types: Types
    operations: list[Operation] = field(default_factory=list)
    _of: dict[int, int] = field(default_factory=dict)
    _places: dict[int, _Place] = field(default_factory=dict)
    _stored: set[int] = field(default_factory=set)
    _bindings: dict[int, int] = field(default_factory=dict)

    def change(self, inside: Sequence[Operation], bindings: dict[int, int]) -> None:
        """Change the functions.

        Args:
            inside: their operations.
            bindings: the number of each variable that is a buffer.

        Raises:
            Unwritable: they do to bytes what has no form with words.
        """
        self._of = dict(self.types.of)
        self._bindings = bindings
        for each in inside:
            self._look(each)
        for each in inside:
            self._operation(each)

    # --- what there is ---------------------------------------------------------------------------

    def _look(self, each: Operation) -> None:
        """Learn the types of values, which may be used before they are made, and of pointers."""
        if each.op not in Op._value2member_map_:
            raise Unwritable(f"a kernel is written with {name_of(each.op)}")
        if each.op not in _WITHOUT_RESULT and each.op != Op.LABEL:
            self._of[each.words[1]] = each.words[0]
        if each.op in _CHAINS and each.words[2] in self.types.buffers:
            _, made, variable, first, *path = each.words
            lanes, storage = self.types.buffers[variable]
            if len(path) not in ((1,) if lanes == 1 else (1, 2)):
                raise Unwritable("a kernel points to a whole array of bytes")
            self._places[made] = _Place(
                variable=variable, path=(first, *path), lanes=lanes, storage=storage
            )
        if each.op == Op.STORE and each.words[0] in self._places:
            place = self._places[each.words[0]]
            if self._bits(place) < _WORD:
                self._stored.add(self._bindings.get(place.variable, -1))

    def _bits(self, place: _Place) -> int:
        return _BYTE if len(place.path) > 2 else _BYTE * place.lanes

    def _lanes(self, value: int) -> int:
        """How many bytes a value is; 0 for one of another type."""
        return self.types.lanes.get(self._of.get(value, 0), 0)

    # --- what becomes of it ----------------------------------------------------------------------

    def _operation(self, each: Operation) -> None:
        op, words = each.op, each.words
        if op == Op.SWITCH and self._lanes(words[0]):
            raise Unwritable("a kernel chooses its way by a byte")
        if op in _PLAIN or op in (Op.LABEL, Op.FUNCTION):
            self.operations.append(each)
        elif op in _CHAINS:
            self._chain(each)
        elif op == Op.LOAD and words[2] in self._places:
            self._load(words[0], words[1], self._places[words[2]])
        elif op == Op.STORE and words[0] in self._places:
            self._store(self._places[words[0]], words[1])
        elif op in (Op.STORE, Op.VARIABLE):
            self.operations.append(each)
        elif self._points(each):
            raise Unwritable("a kernel chooses between pointers to bytes")
        elif op == Op.UNDEF and words[0] in self.types.lanes:
            self._add(Op.COPY_OBJECT, self._type(words[0]), words[1], self.types.null(words[0]))
        elif self._has_bytes(each):
            self._bytes(each)
        else:
            self.operations.append(each)

    def _chain(self, each: Operation) -> None:
        _, made, base, *path = each.words
        if made in self._places:
            return
        if base in self._places or base in self.types.buffers:
            raise Unwritable("a kernel points to a whole array of bytes")
        if any(self._lanes(index) for index in path):
            raise Unwritable("a kernel's index is a byte")
        self.operations.append(each)

    def _points(self, each: Operation) -> bool:
        """Whether an operation has a pointer to bytes of a buffer among its operands."""
        if each.op in _WITHOUT_RESULT:
            return False
        return any(
            word in self._places or word in self.types.buffers for word in self._values(each)
        )

    def _values(self, each: Operation) -> Sequence[int]:
        """The operands that are values."""
        start = 0 if each.op in _WITHOUT_RESULT else 2
        if each.op == Op.EXT_INST:
            return each.words[4:]
        count = _WITH_LITERALS.get(Op(each.op), len(each.words))
        return each.words[start : start + count]

    def _has_bytes(self, each: Operation) -> bool:
        made = each.op not in _WITHOUT_RESULT and each.words[0] in self.types.lanes
        return made or any(map(self._lanes, self._values(each)))

    def _bytes(self, each: Operation) -> None:
        """An operation with bytes among its operands or as its result."""
        op = each.op
        type, made = each.words[:2]
        if op in _SAME:
            self._add(op, self._type(type), *each.words[1:])
        elif op in _GROWING:
            self._cut(op, type, made, each.words[2:])
        elif op in _SIGNED:
            self._cut(op, type, made, self._told(each.words[2:]))
        elif op in (Op.U_CONVERT, Op.S_CONVERT):
            self._convert(op, type, made, each.words[2])
        elif op == Op.BITCAST:
            self._bitcast(type, made, each.words[2])
        elif op == Op.EXT_INST and each.words[3] in _SIGNED_EXTENDED:
            given = (*each.words[2:4], *self._told(each.words[4:]))
            self._cut(op, type, made, given)
        elif op == Op.EXT_INST and each.words[3] in _SAME_EXTENDED:
            self._add(op, self._type(type), *each.words[1:])
        else:
            raise Unwritable(f"a kernel does {name_of(op)} to bytes")

    def _cut(self, op: int, type: int, made: int, given: Iterable[int]) -> None:
        """An operation, and of its result what a byte holds."""
        if type not in self.types.lanes:
            self._add(op, type, made, *given)
            return
        whole = self._value(op, self._type(type), *given)
        self._add(Op.BITWISE_AND, self._type(type), made, whole, self.types.number(0xFF, type))

    def _told(self, given: Sequence[int]) -> list[int]:
        """Operands, and those that are bytes with their sign above."""
        return [self._signed(each) if self._lanes(each) else each for each in given]

    def _signed(self, value: int) -> int:
        type = self._type(self._of[value])
        zero, bits = self.types.number(0), self.types.number(_BYTE)
        return self._value(Op.BIT_FIELD_S_EXTRACT, type, value, zero, bits)

    def _convert(self, op: int, type: int, made: int, value: int) -> None:
        source = self._of[value]
        if source not in self.types.lanes:
            # From a wider integer: what is above is cut off, whatever its sign.
            if self.types.widths.get(self.types.scalars.get(source, source)) != _WORD:
                value = self._value(Op.U_CONVERT, self._type(type), value)
            self._add(Op.BITWISE_AND, self._type(type), made, value, self.types.number(0xFF, type))
            return
        if op == Op.S_CONVERT:
            value = self._signed(value)
        same = self._type(type) == self._type(source)
        self._add(Op.COPY_OBJECT if same else op, self._type(type), made, value)

    def _bitcast(self, type: int, made: int, value: int) -> None:
        given, wanted = self._lanes(value), self.types.lanes.get(type, 0)
        if given == wanted:
            self._add(Op.COPY_OBJECT, self._type(type), made, value)
        elif given == 4 and not wanted:
            op = Op.COPY_OBJECT if type == self.types.word else Op.BITCAST
            self._add(op, type, made, self._joined(value, 4))
        elif wanted == 4 and not given:
            word = value
            if self._of[value] != self.types.word:
                word = self._value(Op.BITCAST, self.types.word, value)
            self._part(type, made, word, 4)
        else:
            raise Unwritable("a kernel does OpBitcast to bytes")

    # --- buffers ---------------------------------------------------------------------------------

    def _load(self, type: int, made: int, place: _Place) -> None:
        pointer, shift = self._word(place)
        if self._bindings.get(place.variable) in self._stored:
            given = (pointer, self.types.number(_DEVICE), self.types.number(0))
            word = self._value(_ATOMIC_LOAD, self.types.word, *given)
        else:
            word = self._value(Op.LOAD, self.types.word, pointer)
        if self._bits(place) == _BYTE:
            bits = self.types.number(_BYTE)
            self._add(Op.BIT_FIELD_U_EXTRACT, self.types.word, made, word, shift, bits)
            return
        if shift:
            word = self._value(Op.SHIFT_RIGHT_LOGICAL, self.types.word, word, shift)
        self._part(type, made, word, place.lanes)

    def _store(self, place: _Place, value: int) -> None:
        bits = self._bits(place)
        if bits > _BYTE:
            value = self._joined(value, place.lanes)
        pointer, shift = self._word(place)
        scope, order = self.types.number(_DEVICE), self.types.number(0)
        if bits == _WORD:
            if self._bindings.get(place.variable) in self._stored:
                self._add(_ATOMIC_STORE, pointer, scope, order, value)
            else:
                self._add(Op.STORE, pointer, value)
            return
        word = self.types.word
        full = self.types.number((1 << bits) - 1)
        mask = self._value(Op.NOT, word, self._value(Op.SHIFT_LEFT_LOGICAL, word, full, shift))
        part = self._value(Op.SHIFT_LEFT_LOGICAL, word, value, shift)
        self._value(Op.ATOMIC_AND, word, pointer, scope, order, mask)
        self._value(Op.ATOMIC_OR, word, pointer, scope, order, part)

    def _word(self, place: _Place) -> tuple[int, int]:
        """A pointer to the word that a place lies in, and how many bits come before it there."""
        first, index, *lane = place.path
        for each in (index, *lane):
            if self.types.widths.get(self._of.get(each, 0)) != _WORD:
                raise Unwritable("a kernel's index is no word")
        word = self.types.word
        if lane:
            lanes = self.types.number(place.lanes)
            index = self._value(Op.I_MUL, word, index, lanes)
            index = self._value(Op.I_ADD, word, index, lane[0])
        each_word = _WORD // self._bits(place)
        shift = 0
        if each_word > 1:
            steps = self.types.number(each_word.bit_length() - 1)
            low = self._value(Op.BITWISE_AND, word, index, self.types.number(each_word - 1))
            index = self._value(Op.SHIFT_RIGHT_LOGICAL, word, index, steps)
            bits = self.types.number(self._bits(place).bit_length() - 1)
            shift = self._value(Op.SHIFT_LEFT_LOGICAL, word, low, bits)
        kind = self.types.pointer(place.storage)
        return self._value(Op.ACCESS_CHAIN, kind, place.variable, first, index), shift

    def _part(self, type: int, made: int, word: int, lanes: int) -> None:
        """A word's lower bytes as a vector."""
        bits = self.types.number(_BYTE)
        parts = [
            self._value(
                Op.BIT_FIELD_U_EXTRACT, self.types.word, word, self.types.number(_BYTE * i), bits
            )
            for i in range(lanes)
        ]
        self._add(Op.COMPOSITE_CONSTRUCT, self._type(type), made, *parts)

    def _joined(self, value: int, lanes: int) -> int:
        """A vector of bytes as one word."""
        word = self.types.word
        whole = self._value(Op.COMPOSITE_EXTRACT, word, value, 0)
        for i in range(1, lanes):
            lane = self._value(Op.COMPOSITE_EXTRACT, word, value, i)
            lane = self._value(Op.SHIFT_LEFT_LOGICAL, word, lane, self.types.number(_BYTE * i))
            whole = self._value(Op.BITWISE_OR, word, whole, lane)
        return whole

    # --- writing ---------------------------------------------------------------------------------

    def _type(self, type: int) -> int:
        return self.types.type(type)

    def _add(self, op: int, *words: int) -> None:
        self.operations.append(Operation(op=op, words=words))

    def _value(self, op: int, type: int, *words: int) -> int:
        made = self.types.fresh()
        self._add(op, type, made, *words)
        return made
