"""WebGPU: kernels of SPIR-V written in WGSL, and modules that hold them."""

from edgec.toolchain.webgpu.modules import write_shaders

__all__ = ["write_shaders"]
