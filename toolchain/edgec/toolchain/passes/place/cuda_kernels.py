"""Products, convolutions, attention and norms as kernels of edgec's own on NVIDIA GPUs."""

from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["CudaKernels"]


@dataclass(frozen=True, kw_only=True)
class CudaKernels:
    """Products, convolutions, attention and norms in f16, bf16 or f32 become PTX kernels.

    The compiler's own code for them uses no matrix units of Hopper, copies without overlap and
    gives each product one slice of the inner dimension. The kernels (`kernels/cuda/triton`,
    written in Triton, kept as PTX) are linked into the module as external executables, so the
    module stays one file. They sum in f32 and take along the bias, the activation and the residual
    that follow element by element, rounding once at the end; f32 is multiplied as three products
    that keep its precision. Sizes that are no multiple of 8 (16 bytes, which the copies take at
    once) and other types stay with the compiler, which sums f16 and bf16 in f32 then.

    Measured on an H200 (`docs/benchmarks_cuda.md`), plain IREE and with this: BERT-base in f16
    2.22 and 0.62 ms, ResNet-50 34.8 and 0.59 (f32: 61.0 and 1.27), 8192 x 8192 x 8192 in f16 7.17
    and 2.02 with 0.6 for the result's memory.
    """

    kernels: str

    name = "cuda-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "CudaKernels | None":
        """For StableHLO on a CUDA target that says which kernels it takes, at -O2 and above."""
        target = situation.target
        fits = situation.is_stablehlo and target.backend is Backend.CUDA and situation.level > 1
        kernels = target.gpu.kernels if target.gpu else ""
        return cls(kernels=kernels) if fits and kernels else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.kernels.cuda.attentions import rewrite_attention
        from edgec.toolchain.kernels.cuda.convolutions import rewrite_convolution
        from edgec.toolchain.kernels.cuda.library import Library
        from edgec.toolchain.kernels.cuda.norms import rewrite_norm
        from edgec.toolchain.kernels.cuda.products import rewrite_product
        from edgec.toolchain.match.product import sum_in_f32, top_operations

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(module, self.kernels)
            # Attention first: its two products are then gone. Norms next: what they read is
            # then what a product before them stores.
            for name, rewrite in (
                ("stablehlo.dot_general", rewrite_attention),
                ("stablehlo.rsqrt", rewrite_norm),
                ("stablehlo.convolution", rewrite_convolution),
                ("stablehlo.dot_general", rewrite_product),
            ):
                for op in top_operations(module, name):
                    rewrite(op, library)
            for name in ("stablehlo.dot_general", "stablehlo.convolution"):
                for op in top_operations(module, name):
                    sum_in_f32(op)
            return library.calls
