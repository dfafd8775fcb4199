"""A `.vmfb` file's bytes to what it exports, imports and holds, without IREE and without trust.

The layout is IREE 3.13's `BytecodeModuleDef`: an optional zip wrapper, a 32-bit size, a FlatBuffer
with the identifier `IREE`, then read-only segments at 64-byte alignment.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edgec.runtime.archive import LOCAL_HEADER, Entry, read_entries
from edgec.runtime.errors import ModuleError
from edgec.runtime.flatbuffer import Budget, Span, Table, root

__all__ = ["CodeTarget", "Export", "Import", "Segment", "Vmfb", "parse"]

_ALIGNMENT = 64
_IDENTIFIER = b"IREE"


@dataclass(frozen=True, kw_only=True)
class Export:
    """One exported function: VM calling convention, reflection, and where each value lies."""

    name: str
    convention: str
    attributes: Mapping[str, str]
    spans: Mapping[str, Span]


@dataclass(frozen=True, kw_only=True)
class Import:
    """One function that the runtime has to provide."""

    name: str
    convention: str
    optional: bool


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One read-only segment. `code` is the executable's format, empty for plain data."""

    index: int
    name: str
    offset: int
    size: int
    code: str


@dataclass(frozen=True, kw_only=True)
class CodeTarget:
    """What the compiler wrote down of the device it made code for."""

    device: str
    format: str
    cpu: str
    features: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Vmfb:
    """Everything a reader wants to know of a module file. Offsets are from the file's start."""

    name: str
    size: int
    bytecode_version: tuple[int, int]
    dependencies: Mapping[str, int]
    exports: tuple[Export, ...]
    imports: tuple[Import, ...]
    segments: tuple[Segment, ...]
    code_targets: tuple[CodeTarget, ...]
    strings: tuple[str, ...]
    bytecode: Span
    debug: Span | None
    archive: tuple[Entry, ...]


def parse(data: memoryview, subject: str) -> Vmfb:
    """Read a module file.

    Args:
        data: the whole file.
        subject: its name, for messages.

    Raises:
        ModuleError: it is no module, truncated or damaged.
    """
    budget = Budget(data, subject)
    archive: tuple[Entry, ...] = ()
    start = 0
    if data[:4] == LOCAL_HEADER:
        archive = read_entries(budget)
        if not archive:
            raise budget.damage("the archive is empty")
        start = 30 + budget.u16(26) + budget.u16(28)
        if archive[0].offset != start:
            raise budget.damage("the archive does not begin with the module")
    if len(data) < start + 12 or data[start + 8 : start + 12] != _IDENTIFIER:
        raise ModuleError(
            f"{subject} is no IREE module",
            hint="give a .vmfb file, as `edgec compile` writes it",
        )
    flatbuffer = Span(start + 4, budget.u32(start))
    budget.need(flatbuffer.start, flatbuffer.size - 4, "the module's table")
    module = root(budget, flatbuffer.start)
    version = module.u32(13)
    bytecode = module.span(14) or Span(flatbuffer.end, 0)
    for table in module.tables(4):  # types: read to be checked; a function of nothing needs none
        table.text(0)
    segments = tuple(_segments(budget, module, flatbuffer, archive))
    text = bytes(data[bytecode.start : bytecode.end])
    return Vmfb(
        name=module.text(0),
        size=len(data),
        bytecode_version=(version >> 16, version & 0xFFFF),
        dependencies={t.text(0): t.u32(1) for t in module.tables(5)},
        exports=tuple(_exports(budget, module)),
        imports=tuple(
            Import(
                name=table.text(0),
                convention=_convention(table.table(1)),
                optional=bool(table.u32(2, 1) & 2),
            )
            for table in module.tables(6)
        ),
        segments=segments,
        code_targets=tuple(_code_targets(text)),
        strings=tuple(_strings(data, segments)),
        bytecode=bytecode,
        debug=_debug_span(module, flatbuffer),
        archive=archive,
    )


def _convention(signature: Table | None) -> str:
    return signature.text(0) if signature is not None else ""


def _exports(budget: Budget, module: Table) -> Iterator[Export]:
    signatures = list(module.tables(8))
    functions = module.span(12, 20)
    count = functions.size // 20 if functions is not None else 0
    for table in module.tables(7):
        ordinal = table.i32(1)
        if not 0 <= ordinal < count or len(signatures) != count:
            raise budget.damage(f"the function {table.text(0)} does not exist")
        signature = signatures[ordinal]
        attributes: dict[str, str] = {}
        spans: dict[str, Span] = {}
        for attribute in signature.tables(1):
            key = attribute.text(0)
            attributes[key] = attribute.text(1)
            spans[key] = attribute.text_span(1) or Span(0, 0)
        yield Export(
            name=table.text(0),
            convention=signature.text(0),
            attributes=attributes,
            spans=spans,
        )


def _segments(
    budget: Budget, module: Table, flatbuffer: Span, archive: tuple[Entry, ...]
) -> Iterator[Segment]:
    base = -(-flatbuffer.end // _ALIGNMENT) * _ALIGNMENT
    names = {entry.offset: entry.name for entry in archive}
    tables = list(module.tables(9))
    inline = [table.span(2) for table in tables]
    strings = {
        bytes(budget.data[span.start : span.end]).decode(errors="replace")
        for span in inline
        if span is not None and span.size <= 64
    }
    for index, (table, span) in enumerate(zip(tables, inline, strict=True)):
        if table.u8(0):
            raise budget.damage(f"the segment {index} is compressed")
        if span is None:
            span = Span(base + table.u64(3), table.u64(4))
            budget.need(span.start, span.size, f"the segment {index}")
        head = bytes(budget.data[span.start : span.start + min(span.size, 32)])
        yield Segment(
            index=index,
            name=names.get(span.start, ""),
            offset=span.start,
            size=span.size,
            code=_code_format(head, strings),
        )


# ELF machine and class (1: 32 bit, 2: 64 bit) to IREE's name of the architecture.
_ELF = {
    (62, 2): "x86_64",
    (3, 1): "x86_32",
    (183, 2): "arm_64",
    (40, 1): "arm_32",
    (243, 2): "riscv_64",
    (243, 1): "riscv_32",
}
# First bytes of an executable to its format; where several fit, the one the module asks for.
_MAGIC = {
    b"VKE1": ("vulkan-spirv-fb", "vulkan-spirv-bda-v1"),
    b"CDA1": ("cuda-nvptx-fb",),
    b"HIP1": ("rocm-hsaco-fb",),
    b"MTL1": ("metal-msl-fb",),
    b'{"kernels":': ("webgpu-wgsl",),
    b"\0asm": ("system-wasm-wasm_32",),
    b"PK\3\4": ("vmvx-bytecode-fb",),
    b"\xcf\xfa\xed\xfe": ("system-macho-arm_64", "system-macho-x86_64"),
    b"MZ": ("system-dll-x86_64", "system-dll-arm_64"),
}


def _code_format(head: bytes, strings: set[str]) -> str:
    """The executable format of a segment that begins like this, or nothing for data."""
    if head[:4] == b"\x7fELF" and len(head) >= 20:
        machine = _ELF.get((int.from_bytes(head[18:20], "little"), head[4]), "unknown")
        system = f"system-elf-{machine}"
        return system if system in strings else f"embedded-elf-{machine}"
    for magic, formats in _MAGIC.items():
        if head.startswith(magic):
            asked = [name for name in formats if name in strings]
            if asked:
                return asked[0]
    return ""


_CODE_TARGET = re.compile(
    rb'#hal\.executable\.target<"[\w-]+", "([\w-]+)"(?:, \{(?:cpu = "([^"]*)", )?'
    rb'(?:cpu_features = "([^"]*)")?)?'
)
_DEVICE = re.compile(rb'#hal\.device\.target<"([\w-]+)"')


def _code_targets(bytecode: bytes) -> Iterator[CodeTarget]:
    """Devices and CPU features, from the messages that the compiler leaves in the bytecode.

    A module fails with `HAL device … not found or unavailable: #hal.device.target<…>` when its
    device is missing; the text spells out what the code was made for.
    """
    device = ""
    devices = [(found.start(), found[1].decode()) for found in _DEVICE.finditer(bytecode)]
    for found in _CODE_TARGET.finditer(bytecode):
        while devices and devices[0][0] < found.start():
            device = devices.pop(0)[1]
        features = (found[3] or b"").decode(errors="replace").split(",")
        yield CodeTarget(
            device=device,
            format=found[1].decode(),
            cpu=(found[2] or b"").decode(errors="replace"),
            features=tuple(sorted({f[1:] for f in features if f.startswith("+")})),
        )


def _strings(data: memoryview, segments: tuple[Segment, ...]) -> Iterator[str]:
    """Short texts among the segments: names of devices, formats, parameters and functions."""
    for segment in segments:
        if 0 < segment.size <= 256 and not segment.code:
            text = bytes(data[segment.offset : segment.offset + segment.size])
            if text.isascii() and text.decode("ascii").isprintable():
                yield text.decode("ascii")


def _debug_span(module: Table, flatbuffer: Span) -> Span | None:
    """Source locations: written last, so they lie between their table and the next object.

    Measured against `--iree-vm-bytecode-module-strip-source-map`: all but 16 bytes of them.
    """
    debug = module.table(15)
    if debug is None:
        return None
    others = [module.span(field) for field in (0, 4, 5, 6, 7, 8, 9, 10, 12, 14)]
    starts = [span.start - 4 for span in others if span is not None]
    state = module.table(11)
    if state is not None:
        starts.append(state.position)
    end = min([start for start in starts if start > debug.position], default=flatbuffer.end)
    return Span(debug.position, max(0, end - debug.position))
