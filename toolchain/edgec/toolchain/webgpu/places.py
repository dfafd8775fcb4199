"""Pointers of a kernel to places in WGSL: which variable, and which part of it.

A buffer is bound once, whatever types the kernel sees in it. It is an array of `f32`, `u32` or
vectors of four where all that the kernel does to it allows, else of words (atomic ones where it
writes parts of words, which its neighbours write, too).
"""

from dataclasses import dataclass, field

from edgec.toolchain.webgpu.forms import bits_of, lanes_of
from edgec.toolchain.webgpu.opcodes import Decoration, Op, Storage
from edgec.toolchain.webgpu.spirv import Entry, Instruction, Kernels, Type, Unwritable, Variable

__all__ = ["Binding", "Place", "Places", "Room"]

_WORD = 32
_ATOMIC = (
    *(Op.ATOMIC_I_ADD, Op.ATOMIC_S_MIN, Op.ATOMIC_U_MIN, Op.ATOMIC_S_MAX, Op.ATOMIC_U_MAX),
    *(Op.ATOMIC_AND, Op.ATOMIC_OR, Op.ATOMIC_XOR),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a pointer points to.

    Attributes:
        variable: where it begins.
        path: the identifiers of indices into it.
        type: what is there.
    """

    variable: Variable
    path: tuple[int, ...]
    type: Type


@dataclass(frozen=True, kw_only=True)
class Room:
    """How a binding is declared: `lanes` numbers of WGSL's type `kind` in each element."""

    kind: str
    lanes: int = 1

    @property
    def element(self) -> str:
        """An element's type."""
        if self.kind == "atomic":
            return "atomic<u32>"
        return self.kind if self.lanes == 1 else f"vec{self.lanes}<{self.kind}>"


@dataclass(kw_only=True)
class Binding:
    """A buffer, and what the kernel does to it.

    Attributes:
        number: its number.
        elements: the types that are read and written in it.
        stored: those of them that are written.
        is_atomic: whether numbers in it are added to.
    """

    number: int
    elements: set[Type] = field(default_factory=set)
    stored: set[Type] = field(default_factory=set)
    is_atomic: bool = False

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes to it."""
        return bool(self.stored) or self.is_atomic

    @property
    def room(self) -> Room:
        """How it is declared."""
        if self.is_atomic or any(bits_of(each) < _WORD for each in self.stored):
            return Room(kind="atomic")
        wide = {each for each in self.elements if lanes_of(each) == 4 and each.inner.bits == _WORD}
        kinds = {each.inner.kind for each in self.elements}
        is_whole = all(each.inner.bits == _WORD for each in self.elements)
        kind = "f32" if kinds == {"float"} and is_whole else "u32"
        # Words of four can be read one by one, but not written so: neighbours would meet.
        if wide and self.stored <= wide:
            return Room(kind=kind, lanes=4)
        return Room(kind=kind)


class Places:
    """The pointers of one kernel, and its bindings by number."""

    def __init__(self, kernels: Kernels, entry: Entry) -> None:
        self._kernels = kernels
        self.variables = kernels.variables | {each.id: each for each in entry.variables}
        self.used: dict[int, Variable] = {}
        self.bindings: dict[int, Binding] = {}
        self._places: dict[int, Place] = {}
        for block in entry.blocks:
            for each in block.body:
                self._look(each)

    def of(self, pointer: int) -> Place:
        """Where a pointer points to.

        Raises:
            Unwritable: that is known only when the kernel runs.
        """
        if pointer in self._places:
            return self._places[pointer]
        if pointer not in self.variables:
            raise Unwritable("a kernel chooses between pointers")
        variable = self.variables[pointer]
        return Place(variable=variable, path=(), type=variable.type)

    def binding(self, place: Place) -> Binding:
        """The buffer that a place lies in."""
        return self.bindings[self._number(place.variable)]

    def index(self, place: Place) -> tuple[int, ...]:
        """The index of an element in its buffer, and of a lane in it if there is one.

        Raises:
            Unwritable: the buffer is no plain array.
        """
        _, *rest = place.path
        held = place.variable.type
        if len(held.members) != 1 or self._first(place) or not 1 <= len(rest) <= 2:
            raise Unwritable("a kernel's buffer is no plain array")
        return tuple(rest)

    def element(self, place: Place) -> Type:
        """The type of the elements of the buffer that a place lies in."""
        return place.variable.type.members[0].inner

    def _first(self, place: Place) -> int:
        return self._kernels.number(place.path[0])

    def word(self, place: Place) -> tuple[int, tuple[int, ...]]:
        """Of a place among the numbers given at the call: their first word, and indices from it.

        Raises:
            Unwritable: they are no plain words.
        """
        member = self._first(place)
        struct = self._kernels.type_ids[id(place.variable.type)]
        said = self._kernels.members.get((struct, member, int(Decoration.OFFSET)), (0,))
        number = place.type
        if number.kind not in ("int", "float") or number.bits != _WORD or len(place.path) > 2:
            raise Unwritable("a kernel is given numbers that are no words")
        return said[0] // 4, place.path[1:]

    def built_in(self, variable: Variable) -> int:
        """Which of the device's own variables it is; -1 for none."""
        said = self._kernels.decorations.get((variable.id, int(Decoration.BUILT_IN)))
        return said[0] if said else -1

    def _look(self, each: Instruction) -> None:
        if each.op in (Op.ACCESS_CHAIN, Op.IN_BOUNDS_ACCESS_CHAIN):
            base, *path = each.words
            start = self.of(base)
            if each.type is not None:
                self._places[each.result] = Place(
                    variable=start.variable, path=(*start.path, *path), type=each.type.inner
                )
        elif each.op == Op.LOAD or each.op == Op.STORE or each.op in _ATOMIC:
            self._use(self.of(each.words[0]), each.op)

    def _use(self, place: Place, op: int) -> None:
        self.used[place.variable.id] = place.variable
        if place.variable.storage != Storage.STORAGE_BUFFER:
            if op in _ATOMIC:
                raise Unwritable("a kernel adds atomically to memory that is no buffer")
            return
        number = self._number(place.variable)
        binding = self.bindings.setdefault(number, Binding(number=number))
        binding.elements.add(_plain(self.element(place)))
        if op == Op.STORE:
            binding.stored.add(_plain(place.type))
        binding.is_atomic |= op in _ATOMIC

    def _number(self, variable: Variable) -> int:
        said = self._kernels.decorations
        if said.get((variable.id, int(Decoration.DESCRIPTOR_SET)), (0,)) != (0,):
            raise Unwritable("a kernel has more than one set of bindings")
        return said[variable.id, int(Decoration.BINDING)][0]


def _plain(type: Type) -> Type:
    """A type as one of its kind, so that equal ones are one."""
    if type.kind not in ("int", "float", "vector"):
        raise Unwritable(f"a kernel's buffer holds values that are a {type.kind}")
    return type
