"""Products by weights in blocks against NumPy: every form, few rows and many, several units."""

import re
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.block_kernels import BlockKernels
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.block_programs import FORMS, Form, in_turn
from tests.toolchain.by_lane import BY_LANE

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
NEON = VectorUnit(lanes=4, registers=32)
TAIL = """%one = stablehlo.constant dense<1.0> : tensor<{rows}x{outputs}xf32>
  %more = stablehlo.add %product, %one : tensor<{rows}x{outputs}xf32>
  %result = stablehlo.tanh %more : tensor<{rows}x{outputs}xf32>"""


def rewritten(text: str, unit: VectorUnit = AVX512, *, halves: bool = True) -> tuple[str, int]:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        count = BlockKernels(unit=unit, halves=halves).run(module)
        module.operation.verify()
        return str(module), count


def merged(cases: dict[str, str]) -> str:
    """Programs of one function each as one of many, which is compiled once."""
    return "".join(text.replace("@main", f"@{name}") for name, text in cases.items())


def test_a_product_and_what_follows_it_become_one_dispatch():
    tail = TAIL.format(rows=1, outputs=8)
    after, count = rewritten(FORMS["Q4_1"].text(1, 8, 256, tail))
    assert count == 1
    function = after[after.index("func.func public @main") :]
    assert not re.search(r"stablehlo\.(dot_general|convert|tanh)", function)
    assert len(re.findall("flow.dispatch ", function)) == 1
    assert "tensor<8x128xi8>" in function  # the codes as they came, not as f32


def test_many_rows_are_laid_out_and_meet_codes_as_they_are():
    after, count = rewritten(FORMS["Q8_0"].text(20, 64, 64))
    assert count == 2
    function = after[after.index("func.func public @main") :]
    assert "flow.dispatch @edgec_floats_20x64" in function
    product = next(line for line in function.splitlines() if "@edgec_floats8_20x64x64" in line)
    assert "tensor<64x64xi8>" in product


def test_a_group_that_a_threads_stack_does_not_hold_is_written_out_in_panels():
    after, _ = rewritten(Form(bits=8, group=8192).text(20, 64, 16384))
    assert "@edgec_panels8_20x16384x64" in after


def test_rows_of_two_products_are_laid_out_once():
    text = FORMS["Q4_0"].text(
        20, 64, 256, "%result = stablehlo.add %product, %again : tensor<20x64xf32>"
    )
    line = next(line for line in text.splitlines() if "%product = " in line)
    twice = text.replace(line, f"{line}\n{line.replace('%product', '%again')}")
    after, count = rewritten(twice)
    function = after[after.index("func.func public @main") :]
    assert count == 3
    assert len(re.findall(r"flow.dispatch @edgec_floats_20x256", function)) == 1
    assert len(re.findall(r"flow.dispatch @edgec_floats4_20x256x64", function)) == 2


def test_outputs_that_are_no_whole_vectors_get_panels_of_f32_for_the_time_of_a_call():
    after, count = rewritten(FORMS["Q8_0"].text(20, 70, 64))
    assert count == 2
    assert "@edgec_panels8_20x64x70" in after
    # It takes the rows, too, so that it is not worked out once and kept.
    panels = next(line for line in after.splitlines() if "flow.dispatch @edgec_panels" in line)
    assert "tensor<20x64xf32>" in panels


@pytest.mark.parametrize(
    ("form", "sizes", "why"),
    [
        (Form(bits=4, group=32, least=True, zero=1.0), (1, 3, 64), "3 outputs"),
        (Form(bits=4, group=48, span=2), (1, 8, 240), "groups of 48"),
    ],
)
def test_what_no_kernel_takes_is_left_to_the_compiler(form, sizes, why):
    after, count = rewritten(form.text(*sizes))
    assert count == 0, why
    assert "stablehlo.dot_general" in after


def test_16_bit_scales_are_read_as_their_bits_where_the_target_converts_none():
    for form in ("Q4_0", "Q4_1", "MatMulNBits"):
        for rows in (1, 20):
            after, count = rewritten(FORMS[form].text(rows, 64, 64), NEON, halves=False)
            assert count == (1 if rows == 1 else 2)
            assert "arith.extf" not in after
            assert not re.search(r"stablehlo\.(convert|dot_general)", after)


SIZES = {"few": (3, 13, 448), "one": (1, 13, 448), "many": (9, 70, 256), "tall": (37, 96, 448)}
"""Rows, outputs, inner; 448 is not a whole number of pieces, 13 not of tiles, 70 not of vectors,
37 not of tiles of many rows, which sum 448 in two blocks."""


def cases(*, every: bool) -> dict[str, tuple[Form, tuple[int, int, int]]]:
    """Every form with few rows and with many, and each size with several forms."""
    found = {}
    for number, (name, form) in enumerate(FORMS.items()):
        some = ("few" if form.least else "one", "one"), ("many", "tall")
        for size in SIZES if every else in_turn(number, *some):
            sizes = SIZES[size]
            inner = form.fitting(sizes[2])
            if inner % (form.group or 1) == 0 and (size != "few" or form.least):
                key = re.sub(r"\W", "_", f"{name}_{size}".lower())
                found[key] = (form, (*sizes[:2], inner))
    return found


def compiled(folder: Path, target: str, *, every: bool):
    texts = {name: form.text(*sizes) for name, (form, sizes) in cases(every=every).items()}
    path = folder / "blocks.mlir"
    path.write_text(merged(texts))
    options = CompileOptions(output=folder / "blocks.vmfb", cache=False, validate=True)
    return compile(path, target, options)


@pytest.fixture(
    scope="module",
    params=[
        ("cpu", False),
        pytest.param(("cpu", True), marks=pytest.mark.slow),
        pytest.param(("cpu:x86-64-v3", True), marks=pytest.mark.slow),
        pytest.param(("cpu:x86-64", True), marks=pytest.mark.slow),
        pytest.param((BY_LANE, True), marks=pytest.mark.slow),
    ],
)
def module(request, tmp_path_factory):
    """Registers of the machine's own, of eight values, and of four without multiply-and-add."""
    target, every = request.param
    return compiled(tmp_path_factory.mktemp("blocks"), target, every=every), cases(every=every)


def test_every_form_and_size_is_what_numpy_works_out(module):
    rng = np.random.default_rng(0)
    made, found = module
    with load(made) as loaded:
        for name, (form, (rows, outputs, inner)) in found.items():
            numbers = form.numbers(outputs, inner, seed=len(name))
            x = rng.standard_normal((rows, inner)).astype(np.float32)
            (answer,) = loaded[name].call_flat([x, *numbers.values()])
            weights = form.weights(numbers, inner)
            expected = x.astype(float) @ weights.T
            scale = np.abs(x) @ np.abs(weights).T
            error = np.abs(answer.numpy() - expected) / scale
            assert error.max() < 1e-6, name
