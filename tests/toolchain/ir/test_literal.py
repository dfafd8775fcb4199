"""Constants of every type to NumPy's numbers."""

import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.fold import Constants, splat
from edgec.toolchain.ir.literal import literal


def constant(text: str, kind: str) -> str:
    return f"""func.func @main() -> {kind} {{
      %0 = stablehlo.constant dense<{text}> : {kind}
      return %0 : {kind}
    }}"""


def read(text: str, kind: str) -> np.ndarray:
    with ir.Context():
        module = ir.Module.parse(constant(text, kind))
        op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
        found = literal(op)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("[1.5, -2.0]", "tensor<2xf16>", np.array([1.5, -2], np.float16)),
        ("[true, false]", "tensor<2xi1>", np.array([True, False])),
        ("7", "tensor<2x2xui8>", np.full((2, 2), 7, np.uint8)),
        ("(1.0, -2.0)", "tensor<complex<f32>>", np.array(1 - 2j, np.complex64)),
        ("(0.0, 1.0)", "tensor<3xcomplex<f64>>", np.full(3, 1j, np.complex128)),
        (
            "[(1.0e-3, 2.0), (0x7F800000, -3.5)]",
            "tensor<2xcomplex<f32>>",
            np.array([1e-3 + 2j, complex(np.inf, -3.5)], np.complex64),
        ),
        (
            '"0x0000803F000000400000404000008040"',
            "tensor<2xcomplex<f32>>",
            np.array([1 + 2j, 3 + 4j], np.complex64),
        ),
    ],
)
def test_numbers_are_those_that_are_written(text, kind, wanted) -> None:
    found = read(text, kind)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_large_ones_of_complex_numbers_are_read_whole() -> None:
    numbers = np.arange(300) * (1.5 - 0.25j)
    text = ", ".join(f"({n.real}, {n.imag})" for n in numbers)
    np.testing.assert_array_equal(read(f"[{text}]", "tensor<300xcomplex<f32>>"), numbers)


def test_parts_of_a_complex_constant_are_known() -> None:
    with ir.Context():
        module = ir.Module.parse(
            """func.func @main() -> tensor<2xf32> {
      %0 = stablehlo.constant dense<(1.0, -2.0)> : tensor<2xcomplex<f32>>
      %1 = stablehlo.imag %0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }"""
        )
        first, second, _ = module.body.operations[0].regions[0].blocks[0].operations
        assert Constants().number(second.results[0]) == -2
        assert splat(first.results[0]) is None
