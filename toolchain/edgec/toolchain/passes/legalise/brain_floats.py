"""bf16 computed in f32, and read and written in memory as 16-bit integers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import entry_block, functions, inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.program import STATE_FUNCTION

__all__ = ["BrainFloats"]

_KNOWN = ("stablehlo.", "chlo.")
_AS_THEY_ARE = ("stablehlo.bitcast_convert", "stablehlo.custom_call", "stablehlo.composite")
"""Operations of StableHLO that read and write bf16 itself, as all of other dialects do."""
_SAID = (
    "bf16 is computed in f32, since the compiler has no code for it here: weights of bf16 take "
    "twice their bytes in the device's memory"
)
_HALF = 0x7FFF
_NO_NUMBER = 0x7FC0


@dataclass(frozen=True, kw_only=True)
class BrainFloats:
    """bf16 becomes f32 inside a program that becomes SPIR-V; what callers and memory hold stays.

    iree-compile 3.13 reads and writes four neighbours of 16 bits as two f32, and has no code for
    that if they are bf16 ("failed to legalize operation 'vector.bitcast'"): it refuses nearly every
    product of bf16, norms, additions to what was looked up, and so every model in it. Of integers
    it has. The bits of an argument or of weights become the upper ones of an f32, in a kernel of
    its own (in that of a product llvmpipe took minutes over them), for weights once at load, where
    they take twice the memory. Results are rounded to the nearest number of bf16, of two to the
    even one, and written as integers. Between them kernels of edgec's own for f32 take what they
    take, and answers are only closer to the exact ones.

    Measured on Mesa's llvmpipe: products of 4 x 32 by 32 x 64 and of 128 x 384 by 384 x 384, a BERT
    and a Llama of two layers are refused without it; with it these are as near to PyTorch's answer
    in f32 as its own in bf16 is.

    Attributes:
        remarks: where to say so.
    """

    remarks: list[str] = field(default_factory=list)

    name = "brain-floats"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "BrainFloats | None":
        """For programs in StableHLO that become SPIR-V."""
        if not (situation.is_stablehlo and situation.target.is_spirv):
            return None
        return cls(remarks=situation.remarks)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            changing = [f for name, f in functions(module).items() if name != STATE_FUNCTION]
            count = sum(_widen(f) for f in changing if list(f.regions[0].blocks))
            if count:
                self.remarks.append(_SAID)
                erase_unused(module)  # what was converted to a type that it has now
            return count


def _is_brain(value: Any) -> bool:
    from iree.compiler import ir

    return isinstance(value.type, ir.RankedTensorType) and isinstance(
        value.type.element_type, ir.BF16Type
    )


def _widen(function: Any) -> int:
    """Have all in a function but what meets memory computed in f32; how many values changed."""
    from iree.compiler import ir

    operations = list(inside(function))
    changed = {value for op in operations for value in _values(op) if _is_brain(value)}
    arguments = [value for value in entry_block(function).arguments if _is_brain(value)]
    for value in changed:
        if not _is_kept(value):
            value.set_type(_like(value.type, ir.F32Type.get()))
    for op in operations:
        if op.name == "stablehlo.constant":
            _widen_constant(op)
    # Operations that read bf16 itself get it from values that are f32 now.
    for op in operations:
        if _meets_memory(op):
            for place, value in enumerate(op.operands):
                if value in changed and not _is_kept(value):
                    with op.location, ir.InsertionPoint(op):
                        op.operands[place] = _written(value)
    for value in arguments:
        with ir.InsertionPoint.at_block_begin(entry_block(function)):
            _read_later(value)
    for value in changed:
        if _is_kept(value):
            with value.owner.location, ir.InsertionPoint.after(value.owner.operation):
                _read_later(value)
    for op in operations:
        if op.name == "stablehlo.convert" and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
    return len(changed) + len(arguments)


def _values(op: Any) -> Iterator[Any]:
    """The results of an operation, and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments


def _meets_memory(op: Any) -> bool:
    """Whether an operation reads and writes bf16 as it lies in memory."""
    return op.name in _AS_THEY_ARE or not op.name.startswith(_KNOWN)


def _is_kept(value: Any) -> bool:
    """Whether a value stays what it is, and is read as f32 behind that."""
    from iree.compiler import ir

    return isinstance(value.owner, ir.Operation | ir.OpView) and (
        _meets_memory(value.owner.operation)
        or (value.owner.operation.name == "stablehlo.constant" and not _is_splat(value.owner))
    )


def _is_splat(constant: Any) -> bool:
    from iree.compiler import ir

    attribute = constant.operation.attributes["value"]
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat


def _widen_constant(op: Any) -> None:
    """Give a constant of one number the type that its result has."""
    from iree.compiler import ir

    kind, attribute = op.results[0].type, op.attributes["value"]
    if attribute.type == kind or not _is_splat(op):
        return
    number = ir.FloatAttr(attribute.get_splat_value()).value
    element = ir.FloatAttr.get(kind.element_type, number)
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(kind, element)


def _like(kind: Any, element: Any) -> Any:
    from iree.compiler import ir

    return ir.RankedTensorType.get(kind.shape, element, kind.encoding)


def _read_later(value: Any) -> None:
    """Give f32 to all that read a value which stays bf16, but to what wants that."""
    uses = [use for use in value.uses if not _meets_memory(use.owner.operation)]
    if not uses:
        return
    wide = _read(value)
    for use in uses:
        use.owner.operation.operands[use.operand_number] = wide


def _read(value: Any) -> Any:
    """Numbers of bf16 as f32."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    narrow, word = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = graph.convert(graph.seen_as(value, narrow), word)
    return graph.fence(graph.bitcast(_shifted("shift_left", bits, 16), ir.F32Type.get()))


def _written(value: Any) -> Any:
    """Numbers of f32 as bf16."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    narrow, word = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = graph.bitcast(value, word)
    upper = _shifted("shift_right_logical", bits, 16)
    half = graph.binary("and", upper, graph.fill_like(bits, 1, word))
    half = graph.binary("add", half, graph.fill_like(bits, _HALF, word))
    rounded = _shifted("shift_right_logical", graph.binary("add", bits, half), 16)
    is_number = graph.compare("EQ", value, value)
    chosen = graph.select(is_number, rounded, graph.fill_like(bits, _NO_NUMBER, word))
    return graph.seen_as(graph.convert(chosen, narrow), ir.BF16Type.get())


def _shifted(name: str, value: Any, by: int) -> Any:
    from edgec.toolchain.ir import write as graph

    return graph.binary(name, value, graph.fill_like(value, by, graph.element(value)))
