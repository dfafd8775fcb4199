"""What is said of weights in blocks that no kernel of a GPU reads."""

import pytest
from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain.kernels.gpu.block_calls import said_of_floats
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan.block_products import place_block_products
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.block_programs import FORMS


@pytest.mark.parametrize("rows", [8, 9])
def test_what_weights_in_blocks_cost_as_floats_is_said(rows: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(FORMS["Q8_0"].by_constants(rows, 256, 1024), context)
        said = list(said_of_floats(module, most_filled=1 << 20))
    assert len(said) == (rows > 8)
    for each in said:
        assert "1 weight in blocks as f32, which take 1.0 MiB beside" in each
        assert "`edgec export --prefill=8`" in each


def test_what_is_too_large_is_written_out_in_each_call() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(FORMS["Q8_0"].by_constants(9, 256, 1024), context)
        (said,) = said_of_floats(module, most_filled=1 << 10)
    assert "1 weight in blocks as f32, written out in each call" in said


@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
def test_no_more_workgroups_are_asked_for_than_every_device_takes() -> None:
    gpu = find("vulkan:nvidia-turing").gpu
    assert gpu is not None
    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(FORMS["Q8_0"].text(4096, 1 << 17, 64), context)
        library = Library(module, gpu)
        place_block_products(module, library)
        (answer,) = library.answers
    assert isinstance(answer.outcome, Declined)
    assert answer.outcome.reason == "262144 tiles"
