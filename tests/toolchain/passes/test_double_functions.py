"""Functions of 64-bit floats without a C library, against NumPy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.double_functions import DoubleFunctions
from edgec.toolchain.stablehlo import parse_stablehlo

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "cbrt": np.cbrt,
    "tanh": np.tanh,
}


def program(kind: str) -> str:
    lines = [f"%{n} = stablehlo.{n} %x : tensor<200x{kind}>" for n in FUNCTIONS]
    names = ", ".join(f"%{n}" for n in FUNCTIONS)
    types = ", ".join([f"tensor<200x{kind}>"] * len(FUNCTIONS))
    return f"""
func.func @main(%x: tensor<200x{kind}>) -> ({types}) {{
  {chr(10).join(lines)}
  return {names} : {types}
}}"""


ANGLE = """
func.func @main(%y: tensor<9x9xf64>, %x: tensor<9x9xf64>) -> tensor<9x9xf64> {
  %0 = stablehlo.atan2 %y, %x : tensor<9x9xf64>
  return %0 : tensor<9x9xf64>
}"""


@pytest.mark.parametrize(("kind", "count"), [("f64", 5), ("f32", 0)])
def test_only_64_bit_floats_change(kind: str, count: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(program(kind), context)
        assert DoubleFunctions().run(module) == count
        assert module.operation.verify()


def test_the_functions_are_right_to_the_last_digits(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(program("f64"))
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    x = np.concatenate(
        [np.linspace(-7, 7, 189), [0.0, 1e5, -3e4, 1e-9, np.pi, 99, -99, 5e3, 2, -8, 27]]
    )
    with runtime.load(module) as loaded:
        results = loaded.main(x)
    for function, actual in zip(FUNCTIONS.values(), results, strict=True):
        np.testing.assert_allclose(actual, function(x), rtol=1e-12, atol=1e-14)


def test_every_angle(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(ANGLE)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 0.3, -2.5, np.inf, -np.inf, 1e-300])
    y, x = (a.copy() for a in np.meshgrid(numbers, numbers))
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(y, x), np.arctan2(y, x), rtol=1e-13, atol=1e-300)


def test_remainders_have_the_sign_of_the_dividend(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(ANGLE.replace("atan2", "remainder"))
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    numbers = np.array([1.0, -1.0, 0.3, -2.5, 7.75, 1e-3, -31.0, 4.0, 0.125])
    x, y = (a.copy() for a in np.meshgrid(numbers, numbers))
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(x, y), np.fmod(x, y), rtol=1e-9, atol=1e-14)


COMPLEX: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exponential": np.exp,
    "sine": np.sin,
    "cosine": np.cos,
    "tanh": np.tanh,
    "log": np.log,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers(name: str, tmp_path: Path) -> None:
    kind = "tensor<50xcomplex<f64>>"
    text = f"""
func.func @main(%x: {kind}) -> {kind} {{
  %0 = stablehlo.{name} %x : {kind}
  return %0 : {kind}
}}"""
    (tmp_path / "case.mlir").write_text(text)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    rng = np.random.default_rng(11)
    x = rng.uniform(-3, 3, 50) + 1j * rng.uniform(-3, 3, 50)
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(x), COMPLEX[name](x), rtol=1e-12, atol=1e-14)
