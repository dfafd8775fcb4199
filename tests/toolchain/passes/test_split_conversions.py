"""64-bit integers and floats on 32-bit Arm, by halves: the IR, and the numbers under qemu."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import toolchain
from edgec.toolchain.passes.legalise.split_conversions import SplitConversions
from edgec.toolchain.stablehlo import parse_stablehlo

WHOLE = [0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, -(2**32), 123456789012, -(2**53)]
REAL = [0.0, 1.9, -1.9, 2.0**31, -(2.0**31), 4294967295.5, -4294967296.5, 1e15, -1e15, 0.5, -0.5]


def conversion(before: str, after: str) -> str:
    size = len(WHOLE)
    return f"""
func.func @main(%x: tensor<{size}x{before}>) -> tensor<{size}x{after}> {{
  %0 = stablehlo.convert %x : (tensor<{size}x{before}>) -> tensor<{size}x{after}>
  return %0 : tensor<{size}x{after}>
}}"""


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("i64", "f32", 1),
        ("ui64", "f64", 1),
        ("f32", "i64", 1),
        ("i32", "f32", 0),
        ("i64", "i32", 0),
    ],
)
def test_only_64_bit_integers_and_floats_are_split(before: str, after: str, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(conversion(before, after), context)
        assert SplitConversions().run(module) == changed
        assert module.operation.verify()
        whole = f"(tensor<{len(WHOLE)}x{before}>) -> tensor<{len(WHOLE)}x{after}>"
        assert (whole in str(module)) == (not changed)


@pytest.mark.slow  # builds edgert and a C library for armv7
@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("int64", "float32", WHOLE),
        ("int64", "float64", WHOLE),
        ("uint64", "float64", [abs(n) for n in WHOLE]),
        ("float64", "int64", REAL),
        ("float32", "int64", REAL),
        ("float64", "uint64", [abs(n) for n in REAL]),
    ],
)
def test_the_numbers_are_right_on_an_emulated_processor(
    before: str, after: str, values: list[float], tmp_path: Path
) -> None:
    if shutil.which("qemu-arm") is None:
        pytest.skip("no qemu-arm: run scripts/setup")
    pytest.importorskip("ziglang")
    short = {"int64": "i64", "uint64": "ui64", "float32": "f32", "float64": "f64"}
    (tmp_path / "case.mlir").write_text(conversion(short[before], short[after]))
    module = tmp_path / "case.vmfb"
    options = toolchain.CompileOptions(output=module, check=False, cache=False)
    toolchain.compile(tmp_path / "case.mlir", "cpu:armv7", options)
    x = np.array(values, before)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x.astype(after))
    subprocess.run(
        [
            *(Path(sys.executable).with_name("edgec"), "run", module, "--on=qemu:armv7", "-q"),
            *(f"--input=@{tmp_path}/x.npy", f"--expected=@{tmp_path}/y.npy"),
        ],
        check=True,
    )
