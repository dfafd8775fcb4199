"""Convolutions, products by weights and attention, as kernels of edgec's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["CpuKernels"]

_SCRATCH_SHARE = 8
"""Of the stack, scores of attention take this part: more would leave the first-level cache."""


@dataclass(frozen=True, kw_only=True)
class CpuKernels:
    """Convolutions and products by weights become register-tiled kernels on the CPU.

    The compiler multiplies matrices well once they are re-laid in memory, but lowers convolutions
    to plain loops and re-lays activations around every product. Each such operation on f32 becomes
    a dispatch of a kernel written here in vectors (`kernels/cpu`), which reads its
    input where it lies; what follows it element by element (bias, residual, activation) is done in
    registers before the result is stored, with the zeros that the next convolution wants around
    it, or what the next pooling does. Weights are packed at compile time. Attention (softmax
    between two products, with masks, biases, heads that share keys) is one kernel, whose vectors
    hold neighbouring queries; with fewer queries than a vector holds one that packs the keys comes
    before it. Scores are made a block of keys at a time and never leave the core's own memory.
    Other products of two matrices that are both computed pack the right one as they go.

    Images whose channels come first are turned between kernels, or at the program's ends, by a
    kernel that writes the border, too.

    Windows of 3 x 3 over many channels take Winograd's form, with 16 products instead of 36. Groups
    of channels that are narrower than a vector share vectors, wider ones have panels of their own;
    windows may have one, two or three axes.

    Measured on one core with AVX-512 (4 GHz, at most 256 GFLOP/s): 230 to 254 GFLOP/s on each
    convolution of ResNet-50, where the compiler reaches 25 to 60; its windows of 3 x 3 over 56 x 56
    pixels take 0.50 ms in Winograd's form and 0.96 without, and are no less exact. Attention of 6
    heads, 1500 keys and a width of 64 takes 18.6 ms and on two cores 10.0, where ONNX Runtime takes
    26.0 and 14.2; of 12 heads and 128 keys with a mask 0.27 (0.41), of 64 windows of 3 heads, 49
    keys and a bias 0.54 (1.21).
    Gates on attention (4 heads of 196 queries, width 48: no attention of any kernel's) take 0.61 ms
    with both products as kernels and 0.69 without, since nothing is re-laid between them.
    An image of 3 x 224 x 224 is turned with its border in 0.02 ms (the compiler: 0.13).
    A RegNetX with groups of 16 channels (400 MFLOP, 224 x 224) takes 5.1 ms on one core and 2.5 on
    two, beside 5.5 and 2.6 of ONNX Runtime.

    Attributes:
        unit: the vector registers of the target.
        cuts: tiles that were measured to be best, by kernel (`edgec tune`).
        answers: where the answer to each description is kept.
    """

    unit: VectorUnit
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)

    name = "cpu-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "CpuKernels | None":
        """For StableHLO at -O2 and above on a CPU with vectors."""
        unit = vector_unit(situation.target)
        if unit is None or situation.level < 2 or not situation.is_stablehlo:
            return None
        if not situation.operations & {"stablehlo.convolution", "stablehlo.dot_general"}:
            return None
        return cls(unit=unit, cuts=situation.settings.cuts, answers=situation.answers)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.kernels.cpu.attentions import place_attention
        from edgec.toolchain.kernels.cpu.emit import emit
        from edgec.toolchain.kernels.cpu.library import Library
        from edgec.toolchain.kernels.cpu.plans import find_plans
        from edgec.toolchain.kernels.cpu.products import place_products
        from edgec.toolchain.kernels.cpu.turns import place_turns
        from edgec.toolchain.kernels.cpu.window_products import place_window_products

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(module, self.cuts)
            scratch = self.unit.stack // _SCRATCH_SHARE
            erase_unused(module)  # What nobody uses would count as a use of attention's weights.
            for op in list(inside(module.operation)):
                if op.name == "stablehlo.dot_general":
                    place_attention(op, library, self.unit, scratch, self.answers)
            if library.count:
                erase_unused(module)
            refused = place_products(module, library, self.unit, self.answers)
            refused |= place_window_products(module, library, self.unit, self.answers)
            emit(find_plans(module, self.answers, refused), library, self.unit)
            if library.count:
                erase_unused(module)  # weights that are packed now, above all
                place_turns(module, library, self.unit)
            return library.count
