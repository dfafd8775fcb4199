"""CPU kernels that edgec writes itself: shapes and a vector unit to `stream.executable` text."""

from edgec.toolchain.kernels.cpu.source.convolution import Convolution, convolution_kernel, tiling
from edgec.toolchain.kernels.cpu.source.cut import Cut, Form, KernelKey
from edgec.toolchain.kernels.cpu.source.epilogue import BINARY, UNARY, Epilogue, Step
from edgec.toolchain.kernels.cpu.source.frames import Frames
from edgec.toolchain.kernels.cpu.source.grouped import grouped_kernel, grouped_tiling
from edgec.toolchain.kernels.cpu.source.result import Result
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.kernels.cpu.source.winograd import (
    WEIGHTS,
    winograd_cuts,
    winograd_kernel,
    winograd_tiling,
)

__all__ = [
    "BINARY",
    "UNARY",
    "WEIGHTS",
    "Convolution",
    "Cut",
    "Epilogue",
    "Form",
    "Frames",
    "KernelKey",
    "Result",
    "Step",
    "VectorUnit",
    "convolution_kernel",
    "grouped_kernel",
    "grouped_tiling",
    "tiling",
    "vector_unit",
    "winograd_cuts",
    "winograd_kernel",
    "winograd_tiling",
]
