"""What is said of weights in blocks that no kernel of a GPU reads."""

import pytest
from iree.compiler import ir

from edgec.toolchain.kernels.gpu.block_calls import said_of_floats
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
