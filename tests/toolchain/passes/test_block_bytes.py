"""Products of rows that are rounded to bytes against NumPy: every form of weights in blocks."""

import re
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import targets
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.write_rounded import rounded_rows
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.passes.place.block_kernels import BlockKernels
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.block_programs import FORMS, Form, in_turn

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
VNNI = DotUnit(vectors=AVX512, signed=False)
PAIRED = "MatMulNBits"
"""Neighbours share a byte there, which no kernel of bytes reads."""


def program(form: Form, rows: int, outputs: int, inner: int) -> str:
    """The product with its rows rounded, group by group."""
    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(form.text(rows, outputs, inner), context)
        (op,) = (op for op in inside(module.operation) if op.name == "stablehlo.dot_general")
        with ir.InsertionPoint(op):
            op.operands[0] = rounded_rows(op.operands[0], form.group or inner)
        return str(module.body.operations[0])


def rewritten(text: str, dot: DotUnit | None, dispatches: int = 1) -> str:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert BlockKernels(unit=AVX512, dot=dot).run(module) == dispatches
        module.operation.verify()
        return str(module)


@pytest.mark.parametrize("name", [name for name in FORMS if name != PAIRED])
def test_codes_are_multiplied_as_they_are(name: str) -> None:
    after = rewritten(program(FORMS[name], 2, 8, 256), VNNI)
    function = after[after.index("func.func public @main") :]
    assert "flow.dispatch @edgec_bytes" in function
    assert "round_nearest_even" not in function  # the kernel rounds


@pytest.mark.parametrize("name", [name for name in FORMS if name != PAIRED])
def test_many_rows_are_rounded_once_and_multiply_codes_as_they_are(name: str) -> None:
    after = rewritten(program(FORMS[name], 20, 32, 256), VNNI, 2)
    function = after[after.index("func.func public @main") :]
    assert "flow.dispatch @edgec_bytes_20x256" in function
    assert re.search(r"flow.dispatch @edgec_bytes[48]_20x256x32", function)
    assert "round_nearest_even" not in function


def test_without_such_an_instruction_the_rounded_numbers_are_multiplied() -> None:
    for name, dot in (("Q4_1", None), (PAIRED, VNNI)):
        after = rewritten(program(FORMS[name], 1, 8, 256), dot)
        function = after[after.index("func.func public @main") :]
        assert "flow.dispatch @edgec_blocks" in function
        assert "round_nearest_even" in function


SIZES = {"few": (3, 13, 448), "one": (1, 12, 576), "wide": (4, 8, 640), "tall": (21, 32, 640)}
"""Rows, outputs, inner; 448 and 576 are not whole numbers of pieces, 13 and 21 not of tiles."""
LONG = (9, 16, 4096)
"""Its sums are made in two blocks."""
UNEVEN = (9, 16, 16 * 257)
"""Its blocks are made of many short steps."""


def expected(form: Form, numbers: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """What each output is, in f64, the rows rounded one group at a time."""
    inner = rows.shape[-1]
    group, left = form.group or inner, rows.astype(np.float64)
    for row in left:
        for start in range(0, inner, group):
            part = row[start : start + group]
            step = np.float32(np.abs(part).max()) * np.float32(1 / 127)
            part[:] = np.rint(part / step) * step if step else 0
    return left @ form.weights(numbers, inner).T


def test_registers_of_256_bits_multiply_bytes_too(tmp_path: Path) -> None:
    """Intel's since Alder Lake, which have no 512 bits."""
    if "avx_vnni" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-VNNI")
    text = (Path(targets.__file__).parent / "data" / "cpu-x86-64-v3.toml").read_text()
    text = text.replace('cpu = "x86-64-v3"', 'cpu = "alderlake"')
    text = text.replace("[limits]", "[[cpu.byte_products]]\nsigned = false\n\n[limits]")
    path = tmp_path / "narrow.vmfb"
    form, sizes = FORMS["Q4_1"], {"few": (2, 9, 192), "tall": (11, 24, 192)}
    texts = [program(form, *each).replace("@main", f"@{name}") for name, each in sizes.items()]
    (tmp_path / "narrow.mlir").write_text("\n".join(texts))
    target = targets.Target.from_toml(text)
    compile(tmp_path / "narrow.mlir", target, CompileOptions(output=path, check=False))
    assert b"edgec_bytes4_2x192x9" in path.read_bytes()
    assert b"edgec_bytes4_11x192x24" in path.read_bytes()
    with load(path) as module:
        for name, (rows, *rest) in sizes.items():
            numbers = form.numbers(*rest)
            x = np.random.default_rng(6).standard_normal((rows, 192)).astype(np.float32)
            found = np.asarray(module[name](x, *numbers.values()))
            right = expected(form, numbers, x)
            np.testing.assert_allclose(found, right, 1e-4, 1e-4 * right.std())


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_forms_and_sizes_give_what_numpy_gives(every: bool, tmp_path: Path) -> None:
    """Every form with few rows and with many, and each size with several forms."""
    cases = {
        f"{size}_{number}": (form, (*SIZES[size][:2], form.fitting(SIZES[size][2])))
        for number, (name, form) in enumerate(FORMS.items())
        for size in (SIZES if every else in_turn(number, ("few", "one"), ("wide", "tall")))
        if not (form.group and form.fitting(SIZES[size][2]) % form.group)
    } | {f"long_{name}": (FORMS[name], LONG) for name in ("int8", "Q4_1")}
    cases["uneven_int8"] = (FORMS["int8"], UNEVEN)
    text = "\n".join(
        program(form, *sizes).replace("@main", f"@{name}") for name, (form, sizes) in cases.items()
    )
    (tmp_path / "all.mlir").write_text(text)
    path = tmp_path / "all.vmfb"
    compile(tmp_path / "all.mlir", "cpu", CompileOptions(output=path, check=False))
    with load(path) as module:
        for name, (form, (rows, outputs, inner)) in cases.items():
            numbers = form.numbers(outputs, inner)
            x = np.random.default_rng(3).standard_normal((rows, inner)).astype(np.float32)
            x[0, :32] *= 40
            x[-1, 64:96] = 0
            found = np.asarray(module[name](x, *numbers.values()))
            right = expected(form, numbers, x)
            np.testing.assert_allclose(found, right, 1e-4, 1e-4 * right.std(), err_msg=name)
