"""bf16 computed in f32, and read and written in memory as 16-bit integers."""

from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["BrainFloats"]

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

        from edgec.toolchain.ir.widening import Widening

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            widening = Widening(kind=ir.BF16Type, read=_read, written=_written)
            count = widening.run(module)
        if count:
            self.remarks.append(_SAID)
        return count


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
