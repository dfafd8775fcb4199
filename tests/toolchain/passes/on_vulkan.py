"""A JAX program to what Vulkan's kernels take of it, and to what a device here answers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir, tools

from edgec import runtime
from edgec.targets import find
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.kernels.vulkan import glsl_compiler
from edgec.toolchain.kernels.vulkan.glsl_compiler import GlslCompiler
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

__all__ = ["answers", "glslang", "lower", "place"]

GPU = replace(find("vulkan:nvidia-ada").gpu, kernels="desktop")
"""One whose kernels run on any device."""
REMARKS: list[str] = []
"""What whoever asked for a module should know of its kernels."""


def lower(function, *shapes, dtype="float32") -> str:
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes]
    return str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))


def place(text: str, what: str) -> tuple[str, list[Kernel | Declined]]:
    """The program after placing, and what became of each description that is called `what`."""
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        Canonicalise().run(module)
        said = Answers()
        with validating():
            VulkanKernels(gpu=GPU, answers=said, remarks=REMARKS).run(module)
        assert module.operation.verify()
        outcomes = [each.outcome for each in said if each.what.startswith(what)]
        return str(module), outcomes


def glslang() -> GlslCompiler:
    """The compiler of kernels; the test is left out where it is not."""
    found = glsl_compiler.tools()
    if found is None:
        pytest.skip("glslang is not here (edgec[vulkan])")
    return GlslCompiler(found)


def answers(text: str, folder: Path, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a program with kernels gives on the device that is here."""
    path = folder / "cases.vmfb"
    tools.compile_str(
        text,
        output_file=str(path),
        input_type="stablehlo",
        extra_args=["--iree-hal-target-device=vulkan"],
    )
    with runtime.load(path, device="vulkan://0") as loaded:
        return [np.asarray(answer) for answer in loaded.main(*arrays)]
