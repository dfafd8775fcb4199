"""Products by weights in blocks, as kernels that read the blocks."""

from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit, dot_unit
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["BlockKernels"]

_PRODUCT = "stablehlo.dot_general"


@dataclass(frozen=True, kw_only=True)
class BlockKernels:
    """Products by weights of 8 or 4 bits in blocks read the blocks, on the CPU.

    A language model that writes reads all of its weights for every token, so it is as fast as
    memory, and weights of four bits are read eight times as fast as f32. The program says
    `(code - zero) * scale + least` and then a product (`match/blocks.py`): the compiler writes out
    the whole matrix in f32 first, once, and reads that. Here a kernel of a few rows turns codes
    into f32 in registers, each block read once and where it lies in the file. With many rows a
    workgroup unpacks a panel of outputs, a block of what is summed at a time, into memory of its
    own that all rows then meet; the rows are laid out first in the order in which that reads them
    (`tall_product.py`). Where outputs are no whole vectors, panels of all weights are written out
    for the time of the call, and the usual kernel reads those. Rows that the program itself rounds
    to bytes are multiplied with the codes as they are, by the processor's instruction for bytes.
    16-bit scales are widened by their bits where the target has no halves, as in WebAssembly.

    Measured with `benchmarks.blocks --layers 12` (all products of a token of 12 layers as
    SmolLM2-135M has them, and its last, whose 4 bits are 8) on a core with AVX-512 whose memory
    gives about 32 GB/s: 7.9 ms in f32, 2.5 with 8 bits and 2.4 with 4; on two 4.6, 1.6 and 1.6.
    256 rows by 4 bits on one thread, panels of f32 before and this now: 2048 x 2048 122 and 147
    GFLOP/s, 8192 x 2048 97 and 122; rounded to bytes 103 and 376, 92 and 346. SmolLM2-135M's
    Q4_1 writes 200 tokens a second on one core where its rows are rounded to bytes, and 164 with
    rows of f32. In node, on one thread, it writes a token in 37 ms, and took 267 where the weights
    became f32 before, in 206 MB of memory for 1,154; 64 tokens of a prompt take as long (732 and
    830 ms).

    Attributes:
        unit: the vector registers of the target.
        dot: how it multiplies bytes; None where it does not.
        halves: whether it converts 16-bit floats.
        answers: where the answer to each description is kept.
    """

    unit: VectorUnit
    dot: DotUnit | None = None
    halves: bool = True
    answers: Answers = field(default_factory=Answers)

    name = "block-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "BlockKernels | None":
        """For StableHLO with products and conversions at -O2 and above on a CPU with vectors."""
        unit = vector_unit(situation.target)
        if unit is None or situation.level < 2 or not situation.is_stablehlo:
            return None
        if not situation.operations >= {_PRODUCT, "stablehlo.convert"}:
            return None
        return cls(
            unit=unit,
            dot=dot_unit(situation.target),
            halves=situation.target.limits.f16,
            answers=situation.answers,
        )

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.kernels.cpu.block_products import place_block_product
        from edgec.toolchain.kernels.cpu.library import Library
        from edgec.toolchain.passes.simplify.hold_blocks import release

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(module)
            products = [op for op in inside(module.operation) if op.name == _PRODUCT]
            for op in products:
                place_block_product(op, library, self.unit, self.dot, self.halves, self.answers)
            if library.count:
                erase_unused(module)
            release(module)
            return library.count
