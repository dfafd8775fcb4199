"""Weights of a half compiled program kept as halves and computed with in f32: on processors.

Between global optimisation, after which nothing is folded any more, and the rest of the compiler
each matrix of f32 becomes one of f16. Where kernels of edgec's own read it, their loads widen what
they read, if the processor has an instruction for that; where single numbers are looked up in it,
the number is widened; for all else the whole matrix is, once, when the module is loaded.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.files import write_atomically
from edgec.toolchain.folded import bodies, large_constants, parse
from edgec.toolchain.ir.functions import inside

__all__ = ["Halved", "halve"]

_LARGEST = float(np.finfo(np.float16).max)
_MOST_ERROR = 2.0**-10
"""Of a matrix's root mean square: what rounding it may cost; it costs numbers that halves hold
a third of that, and all that is left of numbers that are too small for them."""

_LOADS = ("vector.load", "memref.load")
_DISPATCH = "flow.dispatch"
_LOOKUP = "tensor.extract"
_PLACE = "arith.sitofp"
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Halved:
    """What was kept as halves.

    Attributes:
        size: bytes of all these matrices in f32.
        widened: of these, bytes that lie in memory in f32 when the module is loaded.
    """

    size: int
    widened: int


def halve(source: Path, output: Path, *, widens: bool) -> Halved:
    """Keep the matrices of a half compiled program as halves.

    Args:
        source: the program after the compiler's first half.
        output: the same for its second half.
        widens: whether the processor widens what it loads.

    Raises:
        FileError: a file cannot be read or written.
    """
    from iree.compiler import ir

    module = parse(source)
    with module.context, ir.Location.name("edgec.half-weights"):
        halved = _Halving(module, widens=widens).run()
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return halved


def _rounded(array: _Array) -> _Array | None:
    """A matrix in f16; None for what is no matrix of f32, or loses more than its last digits."""
    if array.dtype != np.float32 or sum(size > 1 for size in array.shape) < 2:
        return None
    if not (np.abs(array) <= _LARGEST).all():  # nor what is no number
        return None
    halves = array.astype(np.float16)
    lost = np.subtract(halves, array, dtype=np.float64)
    size = np.square(array, dtype=np.float64).sum()
    return halves if np.square(lost).sum() <= _MOST_ERROR**2 * size else None


class _Halving:
    """A program on its way."""

    def __init__(self, module: Any, *, widens: bool) -> None:
        self._module = module
        self._widens = widens
        self._count = 0

    def run(self) -> Halved:
        found = {
            operation.results[0]: halves
            for operation, array in list(large_constants(self._module))
            if (halves := _rounded(array)) is not None
        }
        narrow = self._narrow_bindings(found) if self._widens else frozenset()
        size = widened = 0
        for value, halves in found.items():
            size += 2 * halves.nbytes
            if self._replace(value, halves, narrow):
                widened += 2 * halves.nbytes
        return Halved(size=size, widened=widened)

    def _narrow_bindings(self, found: dict[Any, _Array]) -> frozenset[tuple[str, int]]:
        """Bindings of kernels that only ever get matrices kept as halves, and now read such."""
        given: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for operation in bodies(self._module):
            if operation.name == _DISPATCH:
                for name in _entry_points(operation):
                    for place, value in _arguments(operation):
                        given[name, place].append(value)
        kernels = dict(_kernels(self._module))
        return frozenset(
            (name, place)
            for (name, place), values in given.items()
            if name in kernels
            and all(value in found for value in values)
            and _read_halves(kernels[name], place)
        )

    def _replace(self, value: Any, halves: _Array, narrow: frozenset[tuple[str, int]]) -> bool:
        """Put a matrix of halves in the place of a constant; whether it is widened as a whole."""
        from iree.compiler import ir

        from edgec.toolchain.ir import global_values

        operation = value.owner.operation
        uses = [(use.owner.operation, use.operand_number) for use in value.uses]
        with ir.InsertionPoint(operation):
            narrower = _constant(halves)
            words = _constant(halves.view(np.int16))
        rest = []
        for user, place in uses:
            if user.name == _DISPATCH and _is_narrow(user, place, narrow):
                user.operands[place] = narrower
            elif user.name == _LOOKUP:
                _look_up(user, words)
            else:
                rest.append((user, place))
        if rest:
            name = self._declare(value.type, halves)
            with ir.InsertionPoint(operation):
                loaded = global_values.load(name, value.type)
            for user, place in rest:
                user.operands[place] = loaded
        operation.erase()
        for made in (narrower, words):
            if not list(made.uses):
                made.owner.operation.erase()
        return bool(rest)

    def _declare(self, kind: Any, halves: _Array) -> str:
        """A global that holds a matrix in f32, made of its halves when the module is loaded."""
        from iree.compiler import ir

        name = f"__edgec_widened_{self._count}"
        self._count += 1
        made = ir.Module.parse(_widening(name, kind))
        at = ir.InsertionPoint.at_block_begin(self._module.body)
        for top in made.body.operations:
            for each in list(inside(top.operation.clone(ip=at))):
                if each.name == "arith.constant":
                    each.attributes["value"] = _dense(halves.view(np.int16))
                elif each.name == _PLACE:
                    with ir.InsertionPoint(each), each.location:
                        each.results[0].replace_all_uses_with(_widened(each.operands[0]))
                    each.erase()
        return name


def _entry_points(dispatch: Any) -> Iterator[str]:
    from iree.compiler import ir

    for entry in ir.ArrayAttr(dispatch.attributes["entry_points"]):
        yield ir.SymbolRefAttr(entry).value[0]


def _arguments(dispatch: Any) -> Iterator[tuple[int, Any]]:
    """What a dispatch hands to its kernel's bindings, by their places."""
    from iree.compiler import ir

    workload, count, *_ = ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])
    for place in range(count):
        yield place, dispatch.operands[workload + place]


def _is_narrow(dispatch: Any, operand: int, narrow: frozenset[tuple[str, int]]) -> bool:
    from iree.compiler import ir

    workload, count, *_ = ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])
    place = operand - workload
    return 0 <= place < count and all((n, place) in narrow for n in _entry_points(dispatch))


def _kernels(module: Any) -> Iterator[tuple[str, Any]]:
    """The functions of kernels that are written already, by the symbols of their executables."""
    from iree.compiler import ir

    for top in module.body.operations:
        if top.operation.name == "stream.executable":
            written = [each for each in inside(top.operation) if each.name == "func.func"]
            if len(written) == 1:
                yield ir.StringAttr(top.operation.attributes["sym_name"]).value, written[0]


def _read_halves(kernel: Any, place: int) -> bool:
    """Let a kernel read a binding as halves that it read as f32; False where it does more."""
    from iree.compiler import ir
    from iree.compiler.dialects import arith

    spans = [use.owner.operation for use in kernel.regions[0].blocks[0].arguments[place].uses]
    if len(spans) != 1 or spans[0].name != "stream.binding.subspan":
        return False
    memory = spans[0].results[0]
    loads = [(use.owner.operation, use.operand_number) for use in memory.uses]
    if not loads or not all(op.name in _LOADS and number == 0 for op, number in loads):
        return False
    half = ir.F16Type.get()
    memory.set_type(ir.MemRefType.get(list(ir.MemRefType(memory.type).shape), half))
    for op, _ in loads:
        value = op.results[0]
        wide = value.type
        is_vector = isinstance(wide, ir.VectorType)
        value.set_type(ir.VectorType.get(list(wide.shape), half) if is_vector else half)
        with ir.InsertionPoint.after(op), op.location:
            number = arith.extf(wide, value)
        value.replace_all_uses_except(number, number.owner.operation)
    return True


def _look_up(lookup: Any, words: Any) -> None:
    """Let a number be looked up in a matrix of halves, as words of 16 bits, and widen it."""
    from iree.compiler import ir

    with ir.InsertionPoint(lookup), lookup.location:
        word = ir.Operation.create(
            "tensor.extract",
            results=[ir.IntegerType.get_signless(16)],
            operands=[words, *list(lookup.operands)[1:]],
        )
        lookup.results[0].replace_all_uses_with(_widened(word.results[0]))
    lookup.erase()


def _constant(halves: _Array) -> Any:
    from iree.compiler import ir

    value = _dense(halves)
    return ir.Operation.create(
        "arith.constant", results=[value.type], attributes={"value": value}
    ).results[0]


def _dense(halves: _Array) -> Any:
    from iree.compiler import ir

    return ir.DenseElementsAttr.get(np.ascontiguousarray(halves))


def _widening(name: str, kind: Any) -> str:
    """A global and what fills it when the module is loaded, but for its numbers."""
    words = str(kind).replace("xf32", "xi16")
    axes = ", ".join(f"d{i}" for i in range(kind.rank))
    same = f"affine_map<({axes}) -> ({axes})>"
    kinds = ", ".join(['"parallel"'] * kind.rank)
    return f"""
    util.global private @{name} : {kind}
    util.initializer {{
      %words = arith.constant dense<0> : {words}
      %empty = tensor.empty() : {kind}
      %wide = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{kinds}]}}
          ins(%words : {words}) outs(%empty : {kind}) {{
      ^bb0(%word: i16, %old: f32):
        %number = {_PLACE} %word : i16 to f32
        linalg.yield %number : f32
      }} -> {kind}
      util.global.store %wide, @{name} : {kind}
      util.return
    }}
    """


def _widened(word: Any) -> Any:
    """A half, given as a word of 16 bits, in f32, by whole numbers and one product, all exact.

    Not each processor has a conversion, and what the compiler puts in its place is refused in
    WebAssembly.
    """
    from iree.compiler import ir
    from iree.compiler.dialects import arith

    whole, single = ir.IntegerType.get_signless(32), ir.F32Type.get()

    def number(value: int) -> Any:
        return arith.constant(whole, ir.IntegerAttr.get(whole, value))

    bits = arith.extui(whole, word)
    size = arith.andi(bits, number(0x7FFF))
    sign = arith.shli(arith.shrui(bits, number(15)), number(31))
    normal = arith.addi(arith.shli(size, number(13)), number((127 - 15) << 23))
    unit = arith.constant(single, ir.FloatAttr.get(single, 2.0**-24))
    tiny = arith.bitcast(whole, arith.mulf(arith.sitofp(single, size), unit))
    is_tiny = arith.cmpi(arith.CmpIPredicate.ult, size, number(0x400))
    return arith.bitcast(single, arith.ori(arith.select(is_tiny, tiny, normal), sign))
