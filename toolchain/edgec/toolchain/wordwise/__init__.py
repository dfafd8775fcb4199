"""Kernels with bytes in their buffers, once more for Vulkan devices that have words of 32 alone."""

from edgec.toolchain.wordwise.modules import add_words, holds_bytes

__all__ = ["add_words", "holds_bytes"]
