"""One kernel of SPIR-V to the text of one WGSL module.

A value becomes a `let`, a variable of the function where it is used outside of the braces it was
made in, or part of the one expression that uses it.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.toolchain.webgpu.arithmetic import NAMED_OPERANDS, Operation, expression, known
from edgec.toolchain.webgpu.buffers import load, store
from edgec.toolchain.webgpu.extended import extended
from edgec.toolchain.webgpu.forms import form, room_of
from edgec.toolchain.webgpu.opcodes import BuiltIn, Op, Storage, name_of
from edgec.toolchain.webgpu.places import Binding, Place, Places
from edgec.toolchain.webgpu.spirv import (
    Entry,
    Instruction,
    Kernels,
    Type,
    Unwritable,
    refusing,
)
from edgec.toolchain.webgpu.structure import (
    Choice,
    Jump,
    Loop,
    Moves,
    Node,
    Split,
    Straight,
    structured,
)

__all__ = ["Shader", "write"]

_NEARLY_MOST = 3.4e38
_LONGEST = 160
"""Characters of an expression that still becomes part of another one."""

_BUILT_IN = {
    BuiltIn.WORKGROUP_ID: "group",
    BuiltIn.LOCAL_INVOCATION_ID: "local",
    BuiltIn.LOCAL_INVOCATION_INDEX: "number",
    BuiltIn.NUM_WORKGROUPS: "groups",
    BuiltIn.GLOBAL_INVOCATION_ID: "place",
}
_PARAMETERS = {
    "group": "@builtin(workgroup_id) group0: vec3<u32>",
    "local": "@builtin(local_invocation_id) local: vec3<u32>",
    "number": "@builtin(local_invocation_index) number: u32",
    "groups": "@builtin(num_workgroups) groups: vec3<u32>",
}
_ATOMIC = {
    Op.ATOMIC_I_ADD: "atomicAdd",
    Op.ATOMIC_U_MIN: "atomicMin",
    Op.ATOMIC_U_MAX: "atomicMax",
    Op.ATOMIC_AND: "atomicAnd",
    Op.ATOMIC_OR: "atomicOr",
    Op.ATOMIC_XOR: "atomicXor",
}
_HELPERS = {
    "high_u": """fn high_u(a: u32, b: u32) -> u32 {
let low = (a & 0xffffu) * (b & 0xffffu);
let left = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
let right = (a & 0xffffu) * (b >> 16u) + (left & 0xffffu);
return (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u);
}
""",
    "high_s": """fn high_s(a: u32, b: u32) -> u32 {
return high_u(a, b) - select(0u, b, (a >> 31u) == 1u) - select(0u, a, (b >> 31u) == 1u);
}
""",
}
"""What expressions call, each with what it calls before it."""


@dataclass(frozen=True, kw_only=True)
class Shader:
    """A kernel in WGSL; its function is called `main`.

    Attributes:
        name: the kernel's name.
        text: the module.
        size: invocations of a workgroup.
        bindings: the numbers of the buffers that it uses, and whether it writes to each.
        words: how many 32-bit numbers it takes at a call.
        counts: whether it asks how many workgroups there are.
        shared: bytes of workgroup memory.
    """

    name: str
    text: str
    size: tuple[int, int, int]
    bindings: tuple[tuple[int, bool], ...]
    words: int
    counts: bool
    shared: int


def write(kernels: Kernels, entry: Entry) -> Shader:
    """Write a kernel.

    Raises:
        CompileError: its words lead nowhere.
        Unwritable: it holds what WGSL has no words for.
    """
    with refusing():
        return _Writer(kernels, entry).shader()


@dataclass(kw_only=True)
class _Let:
    """A value's name and expression; `is_outer` once it is used outside of its braces."""

    name: str
    type: Type
    text: str
    is_outer: bool = False


_Line = str | _Let


class _Writer:
    """What is known while a kernel is written."""

    def __init__(self, kernels: Kernels, entry: Entry) -> None:
        self._kernels = kernels
        self._entry = entry
        self._places = Places(kernels, entry)
        self._blocks = {block.label: block for block in entry.blocks}
        self._types: dict[int, Type] = {}
        self._lets: dict[int, _Let] = {}
        self._made_in: dict[int, tuple[int, ...]] = {}
        self._inlined: dict[int, str] = {}
        self._lines: list[_Line] = []
        self._scope: tuple[int, ...] = ()
        self._scopes = 0
        self._temporaries = 0
        self._odd: dict[int, str] = {}
        self._built_in: set[str] = set()
        self._tables: dict[int, str] = {}
        self._words = 0
        self._uses: Counter[int] = Counter()
        self._users: dict[int, tuple[int, int]] = {}
        for each in kernels.constants.values():
            if each.type is not None:
                self._types[each.result] = each.type
        for block in entry.blocks:
            ends = block.end.words[:1] if block.end.op != Op.BRANCH else ()
            for item in (*block.body, Instruction(op=block.end.op, words=ends)):
                if item.type is not None:
                    self._types[item.result] = item.type
                for word in item.words:
                    self._uses[word] += 1
                    self._users[word] = (block.label, item.op)

    # --- the module ------------------------------------------------------------------------------

    def shader(self) -> Shader:
        """The whole."""
        nodes = structured(self._entry)
        body = self._render(nodes)
        shared = [
            each
            for each in self._places.used.values()
            if each.storage in (Storage.WORKGROUP, Storage.PRIVATE)
        ]
        text = "".join(
            (
                *self._numbers(),
                *(_declaration(each) for each in self._bindings()),
                *(
                    f"var<{'workgroup' if v.storage == Storage.WORKGROUP else 'private'}> "
                    f"m{v.id}: {form(v.type)};\n"
                    for v in shared
                ),
                *(f"var<private> {name} = {hex(bits)}u;\n" for bits, name in self._odd.items()),
                *(f"const {name} = {self._table(id)};\n" for id, name in self._tables.items()),
                *self._helpers(body),
                *self._function(body),
            )
        )
        return Shader(
            name=self._entry.name,
            text=text,
            size=self._entry.size,
            bindings=tuple((each.number, each.is_written) for each in self._bindings()),
            words=self._words,
            counts="groups" in self._built_in,
            shared=sum(room_of(v.type) for v in shared if v.storage == Storage.WORKGROUP),
        )

    def _bindings(self) -> list[Binding]:
        return sorted(self._places.bindings.values(), key=lambda each: each.number)

    def _numbers(self) -> Iterable[str]:
        """What is given at each call: from which workgroup on, and the kernel's own numbers."""
        fours = math.ceil(self._words / 4)
        words = f"  words: array<vec4<u32>,{fours}>,\n" if fours else ""
        yield f"struct Given {{\n  first: vec4<u32>,\n{words}}}\n"
        yield "@group(1) @binding(0) var<uniform> given: Given;\n"

    def _helpers(self, body: Sequence[str]) -> Iterable[str]:
        whole = "".join(body)
        signed_too = "high_s(" in whole
        if signed_too or "high_u(" in whole:
            yield _HELPERS["high_u"]
        if signed_too:
            yield _HELPERS["high_s"]

    def _function(self, body: Sequence[str]) -> Iterable[str]:
        if "place" in self._built_in:
            self._built_in |= {"group", "local"}
        parameters = [text for name, text in _PARAMETERS.items() if name in self._built_in]
        size = ",".join(map(str, self._entry.size))
        yield f"@compute @workgroup_size({size})\nfn main({', '.join(parameters)}) {{\n"
        if "group" in self._built_in:
            yield "let group = group0 + given.first.xyz;\n"
        if "place" in self._built_in:
            yield f"let place = group * vec3<u32>({size}) + local;\n"
        for variable in self._entry.variables:
            initial = f" = {self._text(variable.initial)}" if variable.initial else ""
            yield f"var m{variable.id}: {form(variable.type)}{initial};\n"
        for block in self._entry.blocks:
            for each in block.body:
                if each.op == Op.PHI and each.type is not None:
                    yield f"var p{each.result}: {form(each.type)};\n"
        for let in self._lets.values():
            if let.is_outer:
                yield f"var {let.name}: {form(let.type)};\n"
        yield from body
        yield "}\n"

    def _table(self, identifier: int) -> str:
        return self._constant(self._kernels.constants[identifier])

    # --- what is nested --------------------------------------------------------------------------

    def _render(self, nodes: Sequence[Node]) -> list[str]:
        """The lines of a function's body, once all is known of its values."""
        self._nodes(nodes)
        lines = []
        for line in self._lines:
            if isinstance(line, str):
                lines.append(f"{line}\n")
            else:
                lines.append(f"{'' if line.is_outer else 'let '}{line.name} = {line.text};\n")
        if lines and lines[-1] == "return;\n":
            lines.pop()
        return lines

    def _nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._node(node)

    def _inside(self, head: str, nodes: Sequence[Node], tail: str = "}") -> None:
        """Nodes between braces."""
        self._lines.append(head)
        around = self._scope
        self._scopes += 1
        self._scope = (*around, self._scopes)
        self._nodes(nodes)
        self._scope = around
        if tail:
            self._lines.append(tail)

    def _node(self, node: Node) -> None:
        match node:
            case Straight():
                for each in node.block.body:
                    self._label = node.block.label
                    self._instruction(each)
            case Moves():
                self._moves(node)
            case Jump():
                self._lines.append(f"{node.word};")
            case Split():
                condition = self._text(node.condition)
                yes, no = node.yes, node.no
                if yes:
                    self._inside(f"if ({condition}) {{", yes, "" if no else "}")
                    if no:
                        self._inside("} else {", no)
                elif no:
                    self._inside(f"if (!({condition})) {{", no)
            case Loop():
                body = node.body
                # A `continue` at the end says nothing.
                if isinstance(body[-1], Jump) and body[-1].word == "continue":
                    body = body[:-1]
                self._inside("loop {", body, "")
                if node.last:
                    self._inside("continuing {", node.last)
                self._lines.append("}")
            case Choice():
                self._lines.append(f"switch ({self._text(node.selector)}) {{")
                for numbers, nodes in node.cases:
                    self._inside(f"case {','.join(f'{each}u' for each in numbers)}: {{", nodes)
                self._inside("default: {", node.otherwise)
                self._lines.append("}")

    def _moves(self, node: Moves) -> None:
        for each in self._blocks[node.target].body:
            if each.op != Op.PHI:
                break
            given = dict(zip(each.words[1::2], each.words[::2], strict=True))
            value = given[node.source]
            constant = self._kernels.constants.get(value)
            if constant is None or constant.op != Op.UNDEF:
                self._lines.append(f"p{each.result} = {self._text(value)};")

    # --- operations ------------------------------------------------------------------------------

    def _instruction(self, each: Instruction) -> None:
        match each.op:
            case Op.ACCESS_CHAIN | Op.IN_BOUNDS_ACCESS_CHAIN | Op.VARIABLE:
                return
            case Op.LOAD:
                self._define(each, self._load(self._places.of(each.words[0])))
            case Op.STORE:
                self._store(self._places.of(each.words[0]), self._text(each.words[1]))
            case Op.CONTROL_BARRIER:
                self._lines.append("workgroupBarrier();")
                if self._kernels.number(each.words[2]) & _UNIFORM_MEMORY:
                    self._lines.append("storageBarrier();")
            case Op.MEMORY_BARRIER:
                self._lines.append("storageBarrier();")
            case Op.PHI:
                self._define(each, f"p{each.result}")
            case Op.UNDEF:
                self._define(each, f"{form(_typed(each))}()")
            case Op.EXT_INST:
                self._extended(each)
            case _ if each.op in _ATOMIC:
                place = self._places.of(each.words[0])
                index = self._text(self._places.index(place)[0])
                number = self._places.binding(place).number
                word = self._text(each.words[3])
                self._define(each, f"{_ATOMIC[Op(each.op)]}(&b{number}[{index}],{word})")
            case _:
                self._plain(each)

    def _extended(self, each: Instruction) -> None:
        _, number, *operands = each.words
        types = [self._types[word] for word in operands]
        texts = [self._text(word) for word in operands]
        self._define(each, extended(number, _typed(each), types, texts), may_inline=True)

    def _plain(self, each: Instruction) -> None:
        if not known(each.op):
            raise Unwritable(f"a kernel is written with {name_of(each.op)}")
        count = _OPERANDS.get(Op(each.op), len(each.words))
        operands, words = each.words[:count], each.words[count:]
        made = expression(
            Operation(
                op=each.op,
                type=_typed(each),
                types=tuple(self._types[word] for word in operands),
                given=tuple(self._text(word) for word in operands),
                words=words,
            )
        )
        self._define(each, made, may_inline=True)

    def _define(self, each: Instruction, text: str, *, may_inline: bool = False) -> None:
        """Give a value its name, or keep its expression for the one place that uses it."""
        label, user = self._users.get(each.result, (0, 0))
        once = self._uses[each.result] == 1 and label == self._label
        if may_inline and once and len(text) < _LONGEST and user not in _NAMED:
            self._inlined[each.result] = f"({text})"
            return
        let = _Let(name=f"v{each.result}", type=_typed(each), text=text)
        self._lets[each.result] = let
        self._made_in[each.result] = self._scope
        self._lines.append(let)

    def temporary(self, text: str) -> str:
        """A name for a value of the writer's own, in the braces that are open."""
        self._temporaries += 1
        self._lines.append(f"let t{self._temporaries} = {text};")
        return f"t{self._temporaries}"

    # --- values ----------------------------------------------------------------------------------

    def _text(self, identifier: int) -> str:
        """A value where it is used."""
        if identifier in self._inlined:
            return self._inlined[identifier]
        if identifier in self._lets:
            let = self._lets[identifier]
            made_in = self._made_in[identifier]
            if self._scope[: len(made_in)] != made_in:
                let.is_outer = True
            return let.name
        constant = self._kernels.constants.get(identifier)
        if constant is None:
            raise Unwritable("a kernel computes with pointers")
        if constant.type is not None and constant.type.kind == "array":
            return self._tables.setdefault(identifier, f"k{identifier}")
        return self._constant(constant)

    def _constant(self, constant: Instruction) -> str:
        type = _typed(constant)
        match constant.op:
            case Op.CONSTANT_TRUE:
                return "true"
            case Op.CONSTANT_FALSE:
                return "false"
            case Op.CONSTANT_NULL | Op.UNDEF:
                return f"{form(type)}()"
            case Op.CONSTANT_COMPOSITE:
                parts = [self._constant(self._kernels.constants[word]) for word in constant.words]
                if type.kind == "vector" and len(set(parts)) == 1:
                    parts = parts[:1]
                return f"{form(type)}({','.join(parts)})"
            case _:
                form(type)
                return self._number(type, constant.words[0])

    def _number(self, type: Type, word: int) -> str:
        if type.kind == "int":
            return f"{word & ((1 << type.bits) - 1)}u"
        if type.bits == 16:
            (half,) = struct.unpack("<e", struct.pack("<H", word & 0xFFFF))
            (word,) = struct.unpack("<I", struct.pack("<f", half))
        value = np.array([word], np.uint32).view(np.float32)[0]
        if not np.isfinite(value):
            # WGSL has no words for these, and takes none for what it computes itself.
            name = self._odd.setdefault(word, f"odd{len(self._odd)}")
            return f"bitcast<f32>({name})"
        if value == 0 and word:
            return "-0f"
        # The shortest digits of the largest number are more than it is.
        return f"{float(value)!r}f" if abs(value) > _NEARLY_MOST else f"{value!s}f"

    # --- memory ----------------------------------------------------------------------------------

    def _load(self, place: Place) -> str:
        match place.variable.storage:
            case Storage.INPUT:
                return self._input(place)
            case Storage.PUSH_CONSTANT:
                return self._given(place)
            case Storage.STORAGE_BUFFER:
                index, *lane = (self._text(each) for each in self._places.index(place))
                element = self._places.element(place)
                return load(self._places.binding(place), element, index, lane, self.temporary)
            case _:
                return self._variable(place)

    def _store(self, place: Place, text: str) -> None:
        if place.variable.storage != Storage.STORAGE_BUFFER:
            self._lines.append(f"{self._variable(place)} = {text};")
            return
        index, *lane = (self._text(each) for each in self._places.index(place))
        element = self._places.element(place)
        binding = self._places.binding(place)
        self._lines += store(binding, element, index, lane, text, self.temporary)

    def _variable(self, place: Place) -> str:
        """A variable of the kernel's own, or a part of it."""
        text = f"m{place.variable.id}"
        for index in place.path:
            text = f"{text}[{self._text(index)}]"
        return text

    def _input(self, place: Place) -> str:
        built_in = self._places.built_in(place.variable)
        if built_in not in _BUILT_IN:
            raise Unwritable(f"a kernel asks the device for its number {built_in}")
        name = _BUILT_IN[BuiltIn(built_in)]
        self._built_in.add(name)
        return "".join((name, *(f"[{self._text(index)}]" for index in place.path)))

    def _given(self, place: Place) -> str:
        """A number that is given at the call."""
        first, path = self._places.word(place)
        held = place.variable.type.members[self._kernels.number(place.path[0])]
        self._words = max(self._words, first + max(held.count, 1))
        if path and path[0] not in self._kernels.constants:
            index = self.temporary(f"{first}u + {self._text(path[0])}")
            word = f"given.words[{index} >> 2u][{index} & 3u]"
        else:
            at = first + (self._kernels.number(path[0]) if path else 0)
            word = f"given.words[{at // 4}].{'xyzw'[at % 4]}"
        return f"bitcast<f32>({word})" if place.type.kind == "float" else word


_UNIFORM_MEMORY = 0x40
"""The bit of a barrier that says that buffers are meant, too."""

_OPERANDS = {Op.COMPOSITE_EXTRACT: 1, Op.COMPOSITE_INSERT: 2, Op.VECTOR_SHUFFLE: 2}
"""How many of an operation's words are values, where not all of them."""

_NAMED = NAMED_OPERANDS | {Op.ACCESS_CHAIN, Op.IN_BOUNDS_ACCESS_CHAIN, Op.PHI, Op.STORE}


def _typed(each: Instruction) -> Type:
    if each.type is None:
        raise Unwritable(f"a kernel uses what {name_of(each.op)} gives")
    return each.type


def _declaration(binding: Binding) -> str:
    access = "read_write" if binding.is_written else "read"
    return (
        f"@group(0) @binding({binding.number}) var<storage,{access}> "
        f"b{binding.number}: array<{binding.room.element}>;\n"
    )
