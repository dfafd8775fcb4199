"""Kernels of the user's own inside JAX and PyTorch functions: code for devices, and a reference.

    from edgec import kernels

    swish = kernels.c(source, reference=lambda x: x * jax.nn.sigmoid(x))
    swish = swish | kernels.glsl(shader, grid=lambda x: x.size // 64)

`swish(x)` computes the reference wherever the framework runs it. A program that is exported takes
the code along: `edgec compile` puts it into the module on devices that it is for, proved against
the reference, and the reference on all others.
"""

from typing import NoReturn

from edgec.kernels.kernel import Kernel
from edgec.kernels.languages import c, cuda, glsl, ptx, spirv, triton

__all__ = ["Kernel", "c", "cuda", "glsl", "ptx", "spirv", "triton"]

_OTHERS = {
    "hip": "ROCm's compiler comes in no wheel: AMD's GPUs take kernels.glsl through Vulkan",
    "metal": "Apple's compiler comes in no wheel: Apple's GPUs compute the reference",
    "sycl": "DPC++ comes in no wheel: Intel's GPUs take kernels.glsl through Vulkan",
    "opencl": "IREE has no driver for it: its GPUs take kernels.glsl through Vulkan",
    "wgsl": "browsers take kernels.glsl or kernels.spirv, of which edgec writes WGSL",
}
"""Languages that one would look for here, and what to do instead."""


def __getattr__(name: str) -> NoReturn:
    """Say of a language that is not here what there is instead."""
    why = _OTHERS.get(name)
    said = f"edgec.kernels has no {name}" + (f": {why}" if why else "")
    raise AttributeError(said)
