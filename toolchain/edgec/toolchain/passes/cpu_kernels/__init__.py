"""The pass that gives a CPU edgec's own kernels.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.cpu_kernels.rewrite import CpuKernels

__all__ = ["CpuKernels"]
