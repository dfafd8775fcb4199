"""Kernels of the user's own inside JAX and PyTorch functions: code for devices, and a reference.

    from edgec import kernels

    swish = kernels.c(source, reference=lambda x: x * jax.nn.sigmoid(x))
    swish = swish | kernels.glsl(shader, grid=lambda x: x.size // 64)

`swish(x)` computes the reference wherever the framework runs it. A program that is exported takes
the code along: `edgec compile` puts it into the module on devices that it is for, proved against
the reference, and the reference on all others.
"""

from edgec.kernels.kernel import Kernel
from edgec.kernels.languages import c, cuda, glsl, ptx, spirv, triton

__all__ = ["Kernel", "c", "cuda", "glsl", "ptx", "spirv", "triton"]
