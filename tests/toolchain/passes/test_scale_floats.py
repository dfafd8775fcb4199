"""Conversions to and from scales of eight bits are those of `ml_dtypes`."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.scale_floats import ScaleFloats
from edgec.toolchain.stablehlo import parse_stablehlo

SCALE = ml_dtypes.float8_e8m0fnu
EDGES = (0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x600000, 0x7FFFFF, 0x800000, 0xBFFFFF, 0xC00000)


def _numbers() -> np.ndarray:
    """All powers and what lies around their halves, of both signs, and what is no number."""
    powers = np.arange(256, dtype=np.int64) << 23
    bits = powers[:, None] + np.array([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF])
    both = np.concatenate([bits.reshape(-1), EDGES, bits.reshape(-1)[::7] + (1 << 31)])
    return both.astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_numbers_become_the_nearest_power(tmp_path: Path, element: str) -> None:
    kinds = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
    with np.errstate(all="ignore"):
        x = _numbers().astype(kinds[element])
        want = x.astype(SCALE)
        if element == "f64":  # which `ml_dtypes` rounds to f32 first
            x = np.concatenate([np.nextafter(x, 0), x, np.nextafter(x, np.inf)])
            x = x[(x >= 2.0**-126) & (x < 1.5 * 2.0**127)]
            part, power = np.frexp(x)
            want = (power + 126 + (part >= 0.75)).astype(np.uint8).view(SCALE)
    count = len(x)
    text = (
        f"func.func public @main(%x: tensor<{count}x{element}>)"
        f" -> (tensor<{count}xui8>, tensor<{count}x{element}>) {{\n"
        f"%s = stablehlo.convert %x : (tensor<{count}x{element}>) -> tensor<{count}xf8E8M0FNU>\n"
        f"%c = stablehlo.bitcast_convert %s : (tensor<{count}xf8E8M0FNU>) -> tensor<{count}xui8>\n"
        f"%y = stablehlo.convert %s : (tensor<{count}xf8E8M0FNU>) -> tensor<{count}x{element}>\n"
        f"return %c, %y : tensor<{count}xui8>, tensor<{count}x{element}>\n}}"
    )
    (tmp_path / "scales.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "scales.mlir", "cpu")) as loaded:
        codes, back = loaded.main(x)
    np.testing.assert_array_equal(codes, want.view(np.uint8))
    with np.errstate(all="ignore"):
        expected = want.astype(kinds[element]).astype(np.float64)
        np.testing.assert_array_equal(np.asarray(back).astype(np.float64), expected)


def test_conversions_become_integer_operations() -> None:
    text = (
        "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf8E8M0FNU> {\n"
        "%0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf8E8M0FNU>\n"
        "return %0 : tensor<4xf8E8M0FNU>\n}"
    )
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert ScaleFloats().run(module) == 1
        after = str(module)
        assert ScaleFloats().run(module) == 0
    assert "stablehlo.shift_right_logical" in after
    assert "stablehlo.convert %arg0" not in after
