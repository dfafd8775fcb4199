"""Products of bytes with a zero point that only a call knows, against NumPy."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import targets
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.integer_products import IntegerProducts

X86 = DotUnit(vectors=VectorUnit(lanes=16, registers=32, broadcasts=True), signed=False)
ARM = DotUnit(vectors=VectorUnit(lanes=4, registers=32), signed=True)
RANDOM = np.random.default_rng(11)


def program(byte: str, weights: np.ndarray, rows: int, *, end: str = "", name: str = "main") -> str:
    """`(x - z) @ weights`; `end` makes %out, in f32, of %sums."""
    inner, outputs = weights.shape
    made, final = f"tensor<{rows}x{outputs}x", "f32" if end else "i32"
    return f"""
func.func @{name}(%x: tensor<{rows}x{inner}x{byte}>, %z: tensor<{byte}>, %s: tensor<f32>)
    -> {made}{final}> {{
  %w = stablehlo.constant dense<{weights.tolist()}> : tensor<{inner}x{outputs}xi32>
  %wide = stablehlo.convert %x : (tensor<{rows}x{inner}x{byte}>) -> tensor<{rows}x{inner}xi32>
  %zero = stablehlo.convert %z : (tensor<{byte}>) -> tensor<i32>
  %all = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<i32>) -> tensor<{rows}x{inner}xi32>
  %centred = stablehlo.subtract %wide, %all : tensor<{rows}x{inner}xi32>
  %sums = stablehlo.dot_general %centred, %w, contracting_dims = [1] x [0]
    : (tensor<{rows}x{inner}xi32>, tensor<{inner}x{outputs}xi32>) -> {made}i32>
  {end}
  return {"%out" if end else "%sums"} : {made}{final}>
}}
"""


def scaled(rows: int, outputs: int) -> str:
    """The sums as f32, times a scale that only the call knows."""
    kind = f"tensor<{rows}x{outputs}x"
    return f"""
  %floats = stablehlo.convert %sums : ({kind}i32>) -> {kind}f32>
  %scale = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> {kind}f32>
  %out = stablehlo.multiply %floats, %scale : {kind}f32>
"""


def drawn(*sizes: int, low: int = -128, high: int = 127) -> np.ndarray:
    return RANDOM.integers(low, high, sizes, endpoint=True).astype(np.int32)


def rewritten(text: str, unit: DotUnit) -> tuple[str, IntegerProducts]:
    """The function after the pass, which also compares its matches."""
    with ir.Context(), validating():
        module = ir.Module.parse(text)
        made = IntegerProducts(unit=unit)
        made.run(module)
        module.operation.verify()
        text = str(module)
        return text[text.index("func.func") :], made


@pytest.mark.parametrize(("unit", "other"), [(X86, "i8"), (ARM, "ui8")])
def test_bytes_are_multiplied_as_the_processor_takes_them(unit: DotUnit, other: str) -> None:
    own = {"i8": "ui8", "ui8": "i8"}[other]
    for byte, is_other in ((own, False), (other, True)):
        after, _ = rewritten(program(byte, drawn(8, 16), 2), unit)
        assert "dot_general" not in after
        assert ("stablehlo.xor" in after) is is_other
        assert "-> tensor<2x16xi32>" in after


def test_a_scale_that_the_call_knows_goes_into_the_kernel_of_many_rows() -> None:
    after, _ = rewritten(program("ui8", drawn(8, 16), 3, end=scaled(3, 16)), X86)
    assert "-> tensor<3x16xf32>" in after
    assert "stablehlo.multiply" not in after


def test_weights_beyond_two_bytes_are_left_with_a_reason() -> None:
    after, made = rewritten(program("ui8", drawn(8, 16, low=300, high=301), 1), X86)
    assert "dot_general" in after
    (answer,) = made.answers
    assert isinstance(answer.outcome, Declined)


CASES = {  # bytes, weights, rows
    "row": ("ui8", drawn(30, 40), 1),
    "signed": ("i8", drawn(12, 17), 5),
    "few": ("ui8", drawn(7, 3), 6),
    "wide": ("ui8", drawn(9, 16, low=-200, high=55), 2),
}


def test_sums_are_exact(tmp_path: Path) -> None:
    text, wanted = "", {}
    for name, (byte, weights, rows) in CASES.items():
        kind = np.dtype("int8" if byte == "i8" else "uint8")
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        values, zero = drawn(rows, len(weights), low=low, high=high), high - 2
        inputs = values.astype(kind), np.array(zero, kind), np.float32(0.3)
        sums = (values - zero) @ weights
        end = scaled(*sums.shape)
        text += program(byte, weights, rows, name=f"{name}_whole")
        text += program(byte, weights, rows, end=end, name=f"{name}_scaled")
        wanted[f"{name}_whole"] = inputs, sums
        wanted[f"{name}_scaled"] = inputs, np.float32(sums) * np.float32(0.3)
    path = tmp_path / "products.mlir"
    path.write_text(text)
    made = compile(path, targets.find("cpu"), CompileOptions(output=tmp_path / "p.vmfb"))
    module = load(made.path)
    for name, (inputs, want) in wanted.items():
        assert np.array_equal(getattr(module, name)(*inputs), want), name
