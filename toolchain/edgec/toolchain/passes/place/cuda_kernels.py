"""Products, convolutions, attention and norms as kernels of edgec's own on NVIDIA GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.targets import Backend, Gpu
from edgec.toolchain.flags import most_filled
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.simplify.hold_blocks import release
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.precision import F32

__all__ = ["CudaKernels"]


@dataclass(frozen=True, kw_only=True)
class CudaKernels:
    """Products, convolutions, attention and norms in f16, bf16 or f32 become PTX kernels.

    The compiler's own code for them uses no matrix units of Hopper, copies without overlap and
    gives each product one slice of the inner dimension. The kernels are written in Triton
    (`kernels/cuda/triton`), compiled when they are needed (with `edgec[cuda]`) or beforehand, and
    linked into the module as external executables, so that it stays one file. They sum in f32 and
    take along the bias, the activation and the residual that follow element by element, rounding
    once at the end; f32 is multiplied as three products that keep its precision. Products are read
    where they lie, with any sizes and strides; other types stay with the compiler, which sums f16
    and bf16 in f32 then.

    Measured on an H200 (`docs/benchmarks_cuda.md`), plain IREE and with this: BERT-base in f16
    2.22 and 0.62 ms, ResNet-50 34.8 and 0.59 (f32: 61.0 and 0.85), 8192 x 8192 x 8192 in f16 7.17
    and 2.02 with 0.6 for the result's memory.
    """

    gpu: Gpu
    answers: Answers = field(default_factory=Answers)
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    f32: F32 = F32.FULL
    most_filled: int = 0
    remarks: list[str] = field(default_factory=list)

    name = "cuda-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "CudaKernels | None":
        """For StableHLO on a CUDA target that says which kernels it takes, at -O2 and above."""
        target = situation.target
        fits = situation.is_stablehlo and target.backend is Backend.CUDA and situation.level > 1
        gpu = target.gpu
        if not fits or gpu is None or not gpu.kernels:
            return None
        return cls(
            gpu=gpu,
            answers=situation.answers,
            f32=situation.f32,
            tiles=situation.settings.tiles,
            most_filled=most_filled(target),
            remarks=situation.remarks,
        )

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.kernels.cuda.library import Library
        from edgec.toolchain.kernels.cuda.placing import place_kernels
        from edgec.toolchain.kernels.gpu.block_calls import said_of_floats

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(
                module, self.gpu, answers=self.answers, precision=self.f32.triton, tiles=self.tiles
            )
            release(module)
            place_kernels(module, library)
            self.remarks.extend(said_of_floats(module, self.most_filled))
            return library.calls
