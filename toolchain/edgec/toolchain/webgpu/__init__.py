"""WebGPU: kernels of SPIR-V written in WGSL, and modules that hold them."""

from edgec.toolchain.webgpu.modules import AFTER_SHADERS, BEFORE_SHADERS, write_shaders

__all__ = ["AFTER_SHADERS", "BEFORE_SHADERS", "write_shaders"]
