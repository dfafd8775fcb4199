"""A program of single kernels has the very kernels that it is made for."""

from pathlib import Path

import pytest

from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import Cut, Form, KernelKey
from edgec.toolchain.tuning.kernels_alone import can_stand_alone, program_of

KEYS = (
    "edgec_product_1x1_1x12x64x96",
    "edgec_convolution_3x3_7x9x32x48",
    "edgec_depthwise_3x3_8x8x64",
    "edgec_convolution_3x3_8x8x32x64_g2",
    "edgec_convolution_3x3_4x5x32x48_s2x1",
    "edgec_convolution_3x3_6x6x32x48_d2x2",
)


@pytest.mark.parametrize("cuts", [{}, {KEYS[0]: Cut(columns=3, vectors=1, split=(2, 3))}])
def test_each_kernel_is_there_under_its_key(tmp_path: Path, cuts: dict[str, Cut]) -> None:
    found = [KernelKey.parse(text) for text in KEYS]
    keys = [key for key in found if key is not None]
    assert len(keys) == len(KEYS)
    source = tmp_path / "alone.mlir"
    source.write_text(program_of(keys))
    data = compile(source, options=CompileOptions(cuts=cuts, cache=False, level=2)).path
    names = data.read_bytes()
    for key in keys:
        assert any(key.symbol(form).encode() in names for form in Form)


def test_kernels_of_bytes_do_not_stand_alone() -> None:
    key = KernelKey.parse("edgec_byte_product_1x1_1x12x64x96")
    assert key is not None
    assert not can_stand_alone(key)
