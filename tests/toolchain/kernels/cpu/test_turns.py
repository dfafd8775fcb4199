"""Images whose channels come first, turned by kernels with the zeros that a window wants."""

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels

IMAGES = (
    ((2, 3, 20, 37), ((1, 1), (1, 2))),
    ((1, 2, 45, 47), ((0, 2), (3, 0))),
    ((3, 4, 17, 64), ((1, 0), (0, 0))),
    ((1, 5, 33, 33), ((1, 1), (1, 1))),
    ((2, 40, 14, 14), ((2, 2), (2, 2))),
    ((2, 24, 14, 14), ((0, 0), (0, 0))),
)
"""Sizes, and zeros around them."""


def numbers(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def convolutions(*images):
    """Each by a window of 3 x 3, its channels first before and after it."""
    return tuple(
        jax.lax.conv_general_dilated(
            image,
            numbers(20, image.shape[1], 3, 3),
            (1, 1),
            pad,
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )
        for image, (_, pad) in zip(images, IMAGES, strict=True)
    )


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_images_are_turned_with_their_border_and_back_and_answer_as_jax_does(target, tmp_path):
    images = [numbers(*sizes) for sizes, _ in IMAGES]
    program = export(convolutions, tuple(images))
    # Each is turned, multiplied and turned back; its border takes no more.
    assert run_passes(program, target).changes["cpu-kernels"] == 3 * len(IMAGES)
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answers = loaded.main(*images)
    for answer, want in zip(answers, jax.jit(convolutions)(*images), strict=True):
        np.testing.assert_allclose(np.asarray(answer), want, 1e-4, 1e-4)


def rewritten(text):
    with ir.Context():
        module = ir.Module.parse(text)
        CpuKernels(unit=VectorUnit(lanes=16, registers=32)).run(module)
        module.operation.verify()
        return str(module)


def test_a_transpose_beside_what_the_compiler_fuses_it_with_stays():
    before = """
func.func @main(%x: tensor<64x64x32xf32>) -> (tensor<32x64x64xf32>, tensor<64x64x48xf32>) {
  %w = stablehlo.constant dense<0.5> : tensor<32x48xf32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
    : (tensor<64x64x32xf32>, tensor<32x48xf32>) -> tensor<64x64x48xf32>
  %t = stablehlo.transpose %x, dims = [2, 0, 1]
    : (tensor<64x64x32xf32>) -> tensor<32x64x64xf32>
  %s = OPERATION : tensor<32x64x64xf32>
  return %s, %p : tensor<32x64x64xf32>, tensor<64x64x48xf32>
}
"""
    assert "@edgec_turn" not in rewritten(before.replace("OPERATION", "stablehlo.sine %t"))
    plain = before.replace("  %s = OPERATION : tensor<32x64x64xf32>\n", "").replace("%s,", "%t,")
    assert "flow.dispatch @edgec_turn_1x4096x1x32" in rewritten(plain)
