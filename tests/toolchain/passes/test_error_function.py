"""The error function after a kernel's sums, over all of f32."""

import math

import jax
import numpy as np
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source.error_function import error_function

CHANNELS = 16


def erf_of_a_convolution(x):
    """Windows of one pixel times one leave every number, infinity too, as it is."""
    y = jax.lax.conv_general_dilated(
        x,
        np.ones((1, 1, 1, CHANNELS), np.float32),
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=CHANNELS,
    )
    return jax.lax.erf(y)


def every_magnitude() -> np.ndarray:
    bits = np.arange(0, 0x7F800000, 70_001, dtype=np.uint32).view(np.float32)
    close = np.linspace(0, 4.5, 20_000, dtype=np.float32)
    special = np.array([0.0, 1e-45, 3.9249, 3.925, 3.9251, np.inf, np.nan], np.float32)
    values = np.concatenate([bits, close, special])
    values = np.concatenate([values, -values])
    return np.resize(values, (1, -(-len(values) // (CHANNELS * 64)), 64, CHANNELS))


def test_it_is_that_of_python_to_a_few_units_in_the_last_place(tmp_path):
    x = every_magnitude()
    module = compile(
        export(erf_of_a_convolution, (x,)),
        "cpu",
        CompileOptions(cache=False, output=tmp_path / "m.vmfb"),
    )
    with load(module) as loaded:
        answer = np.asarray(loaded.main(x)).ravel().astype(np.float64)
    with np.errstate(invalid="ignore"):
        want = np.vectorize(math.erf, otypes=[np.float64])(x.ravel().astype(np.float64))
    np.testing.assert_array_equal(np.isnan(answer), np.isnan(want))
    normal = np.isfinite(want) & (np.abs(want) > 1e-36)
    np.testing.assert_allclose(answer[normal], want[normal], rtol=4.5e-7)
    tiny = np.isfinite(want) & ~normal
    np.testing.assert_allclose(answer[tiny], want[tiny], rtol=1e-5, atol=1e-42)
    np.testing.assert_array_equal(
        answer[np.abs(x.ravel()) > 3.925], np.sign(want)[np.abs(x.ravel()) > 3.925]
    )


def test_its_lines_are_code_without_calls():
    count = iter(range(100))
    lines = error_function("%y", "%x", "vector<16xf32>", lambda: f"%v{next(count)}")
    body = "\n".join(lines)
    with ir.Context():
        ir.Module.parse(
            "func.func @f(%x: vector<16xf32>) -> vector<16xf32> {\n"
            f"{body}\nreturn %y : vector<16xf32>\n}}"
        ).operation.verify()
    assert "math.erf" not in body
    assert body.count("arith.divf") == 1
