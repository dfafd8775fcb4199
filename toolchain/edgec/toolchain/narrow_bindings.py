"""A laid out program whose kernels are given of a buffer what they use, where it is too large.

The compiler keeps all that a call holds for a while in one buffer, and gives each kernel the whole
of it, once, with offsets for what lies there. Devices let a kernel reach into no more than so many
bytes of a buffer (128 MiB is what they promise), however little of it the kernel reads. So each
piece becomes a binding of its own, that begins and ends with it. iree-compile 3.13 has no flag for
that (`--iree-stream-resource-max-range` changes nothing here).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.files import write_atomically
from edgec.toolchain.folded import bodies, parse
from edgec.toolchain.ir.functions import entry_block, inside
from edgec.toolchain.parted_weights import APART, whole_bytes

__all__ = ["narrow_bindings"]

_DISPATCH = "stream.cmd.dispatch"
_PIECE = "stream.binding.subspan"
_SEGMENTS = "operandSegmentSizes"
_TENSOR = "!iree_tensor_ext.dispatch.tensor<"


def narrow_bindings(source: Path, output: Path, *, most: int) -> int:
    """Give kernels pieces of buffers that have more bytes than a kernel may reach into.

    Where a piece begins has to be known, and how large it is; what is not stays as it was, and the
    runtime refuses it if it is too large.

    Args:
        source: the program as the compiler has laid it out in memory.
        output: the same for what the compiler does next.
        most: bytes of a binding.

    Returns:
        How many kernels were changed.

    Raises:
        FileError: a file cannot be read or written.
    """
    from iree.compiler import ir

    module = parse(source)
    with module.context, ir.Location.name("edgec.narrow_bindings"):
        count = sum(_narrowed(*found, most) for found in _kernels(module))
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return count


@dataclass(frozen=True, kw_only=True)
class _Site:
    """A dispatch as the parts that its operands are."""

    op: Any
    workload: Sequence[Any]
    operands: Sequence[Any]
    resources: Sequence[Any]
    sizes: Sequence[Any]
    offsets: Sequence[Any]
    lengths: Sequence[Any]

    @classmethod
    def of(cls, op: Any) -> "_Site":
        counts, parts, at = list(op.attributes[_SEGMENTS]), [], 0
        for count in counts:
            parts.append(list(op.operands)[at : at + count])
            at += count
        names = ("workload", "operands", "resources", "sizes", "offsets", "lengths")
        return cls(op=op, **dict(zip(names, parts, strict=True)))


@dataclass(frozen=True, kw_only=True)
class _Window:
    """What one binding is afterwards: where it begins and ends at each site.

    Attributes:
        argument: the number of the binding that it was a part of.
        pieces: what reads or writes it in the kernel; none where it stays whole.
        begins, sizes: bytes, for each site.
        rest: bytes from there to the piece: bindings begin at multiples of some bytes.
    """

    argument: int
    pieces: Sequence[Any] = ()
    begins: Sequence[int] = ()
    sizes: Sequence[int] = ()
    rest: int = 0


def _kernels(module: Any) -> Iterator[tuple[Any, list[_Site]]]:
    """Functions of kernels with all dispatches of theirs."""
    sites: dict[tuple[str, str], list[_Site]] = {}
    several = set()
    for op in bodies(module):
        if op.name == _DISPATCH:
            entries = [tuple(each.value) for each in op.attributes["entry_points"]]
            for entry in entries:
                sites.setdefault(entry, []).append(_Site.of(op))
            several |= set(entries[1:] and entries)
    for top in module.body.operations:
        if top.operation.name != "stream.executable":
            continue
        name = top.operation.attributes["sym_name"].value
        inner = list(inside(top.operation))
        functions = {op.attributes["sym_name"].value: op for op in inner if op.name == "func.func"}
        for export in (op for op in inner if op.name == "stream.executable.export"):
            entry = name, export.attributes["sym_name"].value
            function = functions.get(export.attributes["function_ref"].value)
            if function is not None and entry in sites and entry not in several:
                yield function, sites[entry]


def _narrowed(function: Any, sites: Sequence[_Site], most: int) -> bool:
    """Change one kernel and its dispatches, if a binding is too large and all is known."""
    bindings = range(len(sites[0].resources))
    wide = {i for i in bindings if any((_number(s.lengths[i]) or 0) > most for s in sites)}
    if not wide:
        return False
    windows: list[_Window] = []
    for index in bindings:
        parts = _windows(function, sites, index) if index in wide else None
        windows += parts or [_Window(argument=index)]
    if not any(window.pieces for window in windows):
        return False
    _bind(function, windows)
    for number, site in enumerate(sites):
        _dispatch(site, number, windows)
    return True


def _windows(function: Any, sites: Sequence[_Site], index: int) -> list[_Window] | None:
    """The pieces of one binding; None where one of them is not known."""
    by_place: dict[tuple[int, ...], list[Any]] = {}
    sizes: dict[tuple[int, ...], int] = {}
    for use in entry_block(function).arguments[index].uses:
        piece = use.owner
        size = _size(piece)
        places = [_value(piece.operands[1], site) for site in sites]
        offsets = [_number(site.offsets[index]) for site in sites]
        if piece.name != _PIECE or not size or None in places or None in offsets:
            return None
        begins = tuple(a + b for a, b in zip(places, offsets, strict=True))  # type: ignore[operator]
        by_place.setdefault(begins, []).append(piece)
        sizes[begins] = max(size, sizes.get(begins, 0))
    found = []
    for begins, pieces in by_place.items():
        rests = {begin % APART for begin in begins}
        if len(rests) > 1:
            return None
        rest = rests.pop()
        size = -(-(rest + sizes[begins]) // 4) * 4
        starts = [begin - rest for begin in begins]
        ends = [_number(site.sizes[index]) for site in sites]
        lengths = [
            size if end is None else min(size, end - start)
            for start, end in zip(starts, ends, strict=True)
        ]
        found.append(
            _Window(argument=index, pieces=pieces, begins=starts, sizes=lengths, rest=rest)
        )
    return found


def _bind(function: Any, windows: Sequence[_Window]) -> None:
    """Give the kernel its new bindings in the place of the old."""
    from iree.compiler import ir

    block = entry_block(function)
    old = list(block.arguments)
    count = max(window.argument for window in windows) + 1
    notes = list(function.attributes["arg_attrs"])
    for window in windows:
        made = block.add_argument(old[window.argument].type, old[window.argument].location)
        if not window.pieces:
            old[window.argument].replace_all_uses_with(made)
        for piece in window.pieces:
            with ir.InsertionPoint(piece):
                at = _index(window.rest)
            piece.operands[0], piece.operands[1] = made, at
    for operand in old[count:]:
        made = block.add_argument(operand.type, operand.location)
        operand.replace_all_uses_with(made)
    for _ in old:
        block.erase_argument(0)
    notes = [*(notes[window.argument] for window in windows), *notes[count:]]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(notes)
    types = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))


def _dispatch(site: _Site, number: int, windows: Sequence[_Window]) -> None:
    """Dispatch with the new bindings."""
    from iree.compiler import ir

    op = site.op
    outside = op
    while outside.parent.name not in ("util.func", "util.initializer"):
        outside = outside.parent  # in a region for commands there are no numbers
    whole = [window.argument for window in windows]
    offsets, lengths = [site.offsets[i] for i in whole], [site.lengths[i] for i in whole]
    with ir.InsertionPoint(outside):
        for at, window in enumerate(windows):
            if window.pieces:
                offsets[at] = _index(window.begins[number])
                lengths[at] = _index(window.sizes[number])
    operands = [
        *(*site.workload, *site.operands),
        *(site.resources[i] for i in whole),
        *(site.sizes[i] for i in whole),
        *(*offsets, *lengths),
    ]
    attributes: Mapping[str, Any] = {name: op.attributes[name] for name in op.attributes}
    accesses = list(attributes["resource_accesses"])
    counts = [len(site.workload), len(site.operands), *[len(windows)] * 4]
    with ir.InsertionPoint(op):
        ir.Operation.create(
            _DISPATCH,
            operands=operands,
            attributes={
                **attributes,
                "resource_accesses": ir.ArrayAttr.get([accesses[i] for i in whole]),
                _SEGMENTS: ir.DenseI32ArrayAttr.get(counts),
            },
            loc=op.location,
        )
    op.erase()


def _index(value: int) -> Any:
    from iree.compiler import ir

    index = ir.IndexType.get()
    return ir.Operation.create(
        "arith.constant", results=[index], attributes={"value": ir.IntegerAttr.get(index, value)}
    ).results[0]


def _number(value: Any) -> int | None:
    """A number that the program has as a constant."""
    from iree.compiler import ir

    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return None
    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def _value(value: Any, site: _Site) -> int | None:
    """A number of a kernel, as it is for one dispatch."""
    from iree.compiler import ir

    if isinstance(value.owner, ir.Block):
        at = ir.BlockArgument(value).arg_number - len(site.resources)
        return _number(site.operands[at]) if 0 <= at < len(site.operands) else None
    op = value.owner
    if op.name == "arith.constant":
        return _number(value)
    if op.name == "util.assume.int":
        return _value(op.operands[list(op.results).index(value)], site)
    known = [_value(operand, site) for operand in op.operands]
    if None in known:
        return None
    if op.name in ("arith.index_castui", "arith.index_cast", "arith.extui"):
        return known[0]
    if op.name == "arith.shli":
        return known[0] << known[1]  # type: ignore[operator]
    if op.name == "arith.ori":
        return known[0] | known[1]  # type: ignore[operator]
    return None


def _size(piece: Any) -> int:
    """Bytes of what a kernel sees of a binding; 0 where that is not known."""
    from iree.compiler import ir

    kind = str(piece.results[0].type) if len(piece.results) else ""
    if not kind.startswith(_TENSOR):
        return 0
    return whole_bytes(ir.Type.parse(kind[kind.index(":") + 1 : -1]))
