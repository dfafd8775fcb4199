"""CPU kernels that edgec writes itself: shapes and a vector unit to `stream.executable` text."""

from edgec.toolchain.kernels.cpu.convolution import Convolution, convolution_kernel, tiling
from edgec.toolchain.kernels.cpu.cut import Cut, KernelKey
from edgec.toolchain.kernels.cpu.depthwise import Depthwise, depthwise_kernel, depthwise_tiling
from edgec.toolchain.kernels.cpu.epilogue import BINARY, UNARY, Epilogue, Operand, Step
from edgec.toolchain.kernels.cpu.result import Result
from edgec.toolchain.kernels.cpu.vectors import VectorUnit, vector_unit
from edgec.toolchain.kernels.cpu.winograd import WEIGHTS, winograd_kernel, winograd_tiling

__all__ = [
    "BINARY",
    "UNARY",
    "WEIGHTS",
    "Convolution",
    "Cut",
    "Depthwise",
    "Epilogue",
    "KernelKey",
    "Operand",
    "Result",
    "Step",
    "VectorUnit",
    "convolution_kernel",
    "depthwise_kernel",
    "depthwise_tiling",
    "tiling",
    "vector_unit",
    "winograd_kernel",
    "winograd_tiling",
]
