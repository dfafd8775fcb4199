"""The pass that computes quantised networks in bytes.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.quantised_kernels.rewrite import QuantisedKernels

__all__ = ["QuantisedKernels"]
