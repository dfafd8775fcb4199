"""Integers to bf16 by way of f32."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["BrainConversions"]


@dataclass(frozen=True, kw_only=True)
class BrainConversions:
    """A conversion of integers or bool to bf16 becomes one to f32 and one from there.

    iree-compile 3.13 keeps bf16 in 16 bits in SPIR-V, and converts an integer to 32 of them
    ("'spirv.Bitcast' op mismatch in result type bitwidth 16 and operand type bitwidth 32").
    Conversions from f32 are right. On CPUs it asks the C library for the conversion
    (`__truncsfbf2`), which kernels have not, wherever the processor has no instruction for it: on
    all but Intel's since Cooper Lake and AMD's since Zen 4. A zero is added in between, since the
    compiler makes one conversion of two again; no integer becomes -0. Those beyond 2^24 are rounded
    twice. One number everywhere is written in bf16: the compiler would compute it once, keep it in
    a global of its own, and not legalise that one ("'util.initializer' explicitly marked illegal").

    Measured on llvmpipe: masks and integers of every width, and the gradient of a maximum, are
    refused without it and right with it.
    """

    name = "brain-conversions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "BrainConversions | None":
        """For programs in StableHLO with conversions that become SPIR-V or a CPU's code."""
        target = situation.target
        if not (target.is_spirv or target.backend is Backend.CPU):
            return None
        return cls() if "stablehlo.convert" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        return rewrite_each(module, ["stablehlo.convert"], _by_f32)


def _by_f32(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import Constants

    (value,), (result,) = op.operands, op.results
    kind = graph.element(result)
    if not isinstance(kind, ir.BF16Type) or not isinstance(graph.element(value), ir.IntegerType):
        return None
    number = Constants().number(value)
    if number is not None:
        return [graph.fill(number, graph.shape(value), kind)]
    single = graph.convert(value, ir.F32Type.get())
    zero = graph.fill(0.0, graph.shape(value), ir.F32Type.get())
    return [graph.convert(graph.binary("add", single, zero), kind)]
