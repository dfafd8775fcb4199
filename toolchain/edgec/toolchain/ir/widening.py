"""Values of a narrow type computed in f32, but where they meet memory.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.erase import erase_unused
from edgec.toolchain.ir.functions import entry_block, functions, inside
from edgec.toolchain.program import STATE_FUNCTION

__all__ = ["Widening"]

_KNOWN = ("stablehlo.", "chlo.")
_AS_THEY_ARE = ("stablehlo.bitcast_convert", "stablehlo.custom_call", "stablehlo.composite")
"""Operations of StableHLO that read and write a type itself, as all of other dialects do."""


@dataclass(frozen=True, kw_only=True)
class Widening:
    """How a type of floats becomes f32 inside a program.

    Attributes:
        kind: the class of the element type.
        read: from a value of that type, as arguments, weights and results of calls are, to f32.
        written: from f32 to a value of that type.
    """

    kind: type
    read: Callable[[Any], Any]
    written: Callable[[Any], Any]

    @classmethod
    def by_conversion(cls, kind: type) -> "Widening":
        """The one that reads and writes a type by StableHLO's own conversion."""
        return cls(
            kind=kind,
            read=lambda value: graph.convert(value, ir.F32Type.get()),
            written=lambda value: graph.convert(value, kind.get()),  # type: ignore[attr-defined]
        )

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values changed."""
        changing = [f for name, f in functions(module).items() if name != STATE_FUNCTION]
        count = sum(self._widen(f) for f in changing if list(f.regions[0].blocks))
        if count:
            erase_unused(module)  # what was converted to a type that it has now
        return count

    def _is_narrow(self, value: Any) -> bool:
        return isinstance(value.type, ir.RankedTensorType) and isinstance(
            value.type.element_type, self.kind
        )

    def _widen(self, function: Any) -> int:
        """Have all in a function but what meets memory computed in f32; how many values changed."""
        operations = list(inside(function))
        narrow = [value for op in operations for value in _values(op) if self._is_narrow(value)]
        kept = [value for value in narrow if _is_kept(value)]
        wide = set(narrow).difference(kept)
        arguments = [value for value in entry_block(function).arguments if self._is_narrow(value)]
        for value in wide:
            value.set_type(_like(value.type, ir.F32Type.get()))
        for op in operations:
            if op.name == "stablehlo.constant" and op.results[0] in wide:
                _widen_constant(op)
        # Operations that read the type itself get it from values that are f32 now.
        for op in operations:
            if _meets_memory(op):
                for place, value in enumerate(op.operands):
                    if value in wide:
                        with op.location, ir.InsertionPoint(op):
                            op.operands[place] = self.written(value)
        for value in arguments:
            with ir.InsertionPoint.at_block_begin(entry_block(function)):
                self._read_later(value)
        for value in kept:
            with value.owner.location, ir.InsertionPoint.after(value.owner.operation):
                self._read_later(value)
        for op in operations:
            if op.name == "stablehlo.convert" and op.operands[0].type == op.results[0].type:
                op.results[0].replace_all_uses_with(op.operands[0])
        return len(narrow) + len(arguments)

    def _read_later(self, value: Any) -> None:
        """Give f32 to all that read a value which stays what it is, but to what wants that."""
        uses = [use for use in value.uses if not _meets_memory(use.owner.operation)]
        if not uses:
            return
        wide = self.read(value)
        for use in uses:
            use.owner.operation.operands[use.operand_number] = wide


def _values(op: Any) -> Iterator[Any]:
    """The results of an operation, and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments


def _meets_memory(op: Any) -> bool:
    """Whether an operation reads and writes a narrow type as it lies in memory."""
    return op.name in _AS_THEY_ARE or not op.name.startswith(_KNOWN)


def _is_kept(value: Any) -> bool:
    """Whether a value stays what it is, and is read as f32 behind that."""
    return isinstance(value.owner, ir.Operation | ir.OpView) and (
        _meets_memory(value.owner.operation)
        or (value.owner.operation.name == "stablehlo.constant" and not _is_splat(value.owner))
    )


def _is_splat(constant: Any) -> bool:
    attribute = constant.operation.attributes["value"]
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat


def _widen_constant(op: Any) -> None:
    """Give a constant of one number the type that its result has."""
    kind = op.results[0].type
    number = ir.FloatAttr(op.attributes["value"].get_splat_value()).value
    element = ir.FloatAttr.get(kind.element_type, number)
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(kind, element)


def _like(kind: Any, element: Any) -> Any:
    return ir.RankedTensorType.get(kind.shape, element, kind.encoding)
