"""Codes that are constants stay codes until a kernel reads them."""

import numpy as np
import pytest
from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.passes.place.block_kernels import BlockKernels
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.fold_constants import FoldConstants
from edgec.toolchain.passes.simplify.hold_blocks import HoldBlocks
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.block_programs import FORMS
from tests.toolchain.passes.test_block_kernels import AVX512

FORM = FORMS["Q8_0"]


def program(rows: int = 1) -> str:
    """A product by constants."""
    text = FORM.text(rows, 64, 128)
    for name, array in FORM.numbers(64, 128).items():
        kind = "i8" if name == "codes" else "f16"
        sizes = "x".join(map(str, array.shape))
        data = np.ascontiguousarray(array).tobytes().hex().upper()
        text = text.replace(f", %{name}: tensor<{sizes}x{kind}>", "").replace(
            "{\n",
            f'{{\n  %{name} = stablehlo.constant dense<"0x{data}"> : tensor<{sizes}x{kind}>\n',
            1,
        )
    return text


def placed(*, held: bool) -> tuple[int, str]:
    with ir.Context() as context:
        module = parse_stablehlo(program(), context)
        if held:
            assert HoldBlocks().run(module) == 1
            assert "optimization_barrier" in str(module)
        Canonicalise().run(module)
        FoldConstants().run(module)
        count = BlockKernels(unit=AVX512).run(module)
        return count, str(module)


def test_codes_that_are_constants_reach_the_kernel():
    count, after = placed(held=True)
    assert count == 1
    assert "tensor<64x128xi8>" in after
    assert "optimization_barrier" not in after


def test_without_it_they_become_f32():
    count, after = placed(held=False)
    assert count == 0
    assert "tensor<64x128xf32>" in after


@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize(("rows", "held"), [(1, 1), (9, 0)])
def test_through_vulkan_those_are_held_that_its_kernel_reads(rows: int, held: int) -> None:
    target = find("vulkan:android")
    assert target.gpu is not None
    with ir.Context() as context:
        module = parse_stablehlo(program(rows), context)
        assert HoldBlocks(most_rows=8).run(module) == held
        Canonicalise().run(module)
        FoldConstants().run(module)
        count = VulkanKernels(gpu=target.gpu, limits=target.limits).run(module)
        assert ("@edgec_block_rows" in str(module)) == bool(held)
        assert "optimization_barrier" not in str(module)
        assert count or not held


def test_a_product_of_bytes_by_bytes_is_left_to_the_kernels_of_bytes():
    row = "tensor<1x128xf32>"
    text = program().replace(
        "%product = stablehlo.dot_general %x,",
        f"""%least = stablehlo.constant dense<-128.0> : {row}
  %most = stablehlo.constant dense<127.0> : {row}
  %step = stablehlo.constant dense<0.1> : {row}
  %round = stablehlo.round_nearest_even %x : {row}
  %bytes = stablehlo.clamp %least, %round, %most : {row}
  %left = stablehlo.multiply %bytes, %step : {row}
  %product = stablehlo.dot_general %left,""",
    )
    assert text != program()
    with ir.Context() as context:
        assert HoldBlocks().run(parse_stablehlo(text, context)) == 0
