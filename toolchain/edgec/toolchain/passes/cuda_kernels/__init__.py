"""The pass that gives NVIDIA GPUs edgec's own kernels.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.cuda_kernels.rewrite import CudaKernels

__all__ = ["CudaKernels"]
