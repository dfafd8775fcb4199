"""The pass that gives GPUs edgec's own kernels through Vulkan.

Only `rewrite` imports without the compiler; the rest is imported when the pass runs.
"""

from edgec.toolchain.passes.vulkan_kernels.rewrite import VulkanKernels

__all__ = ["VulkanKernels"]
