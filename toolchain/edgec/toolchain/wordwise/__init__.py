"""Kernels with bytes in their buffers, once more for Vulkan devices that have words of 32 alone."""

from edgec.toolchain.wordwise.modules import add_words

__all__ = ["add_words"]
