"""Codes that are constants stay codes until a kernel reads them."""

import pytest
from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.passes.place.block_kernels import BlockKernels
from edgec.toolchain.passes.place.cuda_kernels import CudaKernels
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
    return FORM.by_constants(rows, 64, 128)


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


@pytest.mark.skipif(tools() is None, reason="its kernels need edgec[vulkan]")
@pytest.mark.parametrize(("rows", "kernel"), [(1, "block_rows"), (9, "block_product")])
def test_through_vulkan_its_kernels_read_them(rows: int, kernel: str) -> None:
    target = find("vulkan:android")
    assert target.gpu is not None
    with ir.Context() as context:
        module = parse_stablehlo(program(rows), context)
        assert HoldBlocks().run(module) == 1
        Canonicalise().run(module)
        FoldConstants().run(module)
        assert VulkanKernels(gpu=target.gpu, limits=target.limits).run(module)
        assert f"@edgec_{kernel}" in str(module)
        assert "optimization_barrier" not in str(module)


@pytest.mark.skipif(not has_triton(), reason="its kernels need edgec[cuda]")
@pytest.mark.parametrize(("rows", "kernel"), [(1, "block_digits"), (9, "block_product")])
def test_on_cuda_its_kernels_read_them(rows: int, kernel: str) -> None:
    target = find("cuda:sm_90")
    assert target.gpu is not None
    with ir.Context() as context:
        module = parse_stablehlo(program(rows), context)
        assert HoldBlocks().run(module) == 1
        Canonicalise().run(module)
        FoldConstants().run(module)
        assert CudaKernels(gpu=target.gpu).run(module) == 1
        assert f"@edgec_{kernel}" in str(module)
        assert "optimization_barrier" not in str(module)


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
