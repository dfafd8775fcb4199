"""Rows rounded to bytes times weights in blocks on (emulated) 64-bit Arm, by `sdot`."""

from pathlib import Path

import numpy as np

from edgec import toolchain
from tests.toolchain.block_programs import FORMS
from tests.toolchain.passes.test_block_bytes import expected, program

SIZES = {"few": (2, 9, 96), "tall": (7, 8, 96)}
NAMES = ("Q4_0", "Q4_1", "Q8_0", "int8")


def test_codes_are_multiplied_as_numpy_does(run_on_aarch64, tmp_path: Path) -> None:
    source, path = tmp_path / "blocks.mlir", tmp_path / "blocks.vmfb"
    texts = [
        program(FORMS[name], *sizes).replace("@main", f"@{name}_{size}")
        for name in NAMES
        for size, sizes in SIZES.items()
    ]
    source.write_text("\n".join(texts))
    toolchain.compile(source, "cpu:arm64-v8.2", toolchain.CompileOptions(output=path))
    assert b"edgec_bytes4_2x96x9" in path.read_bytes()
    assert b"edgec_bytes4_7x96x8" in path.read_bytes()
    for name in NAMES:
        for size, (rows, outputs, inner) in SIZES.items():
            x = np.random.default_rng(5).standard_normal((rows, inner)).astype(np.float32)
            numbers = FORMS[name].numbers(outputs, inner)
            function = f"{name}_{size}"
            (found,) = run_on_aarch64(path, {"x": x, **numbers}, outputs=1, function=function)
            right = expected(FORMS[name], numbers, x)
            np.testing.assert_allclose(found, right, 1e-4, 1e-4 * right.std(), err_msg=function)
