"""Products with a named algorithm compile."""

from pathlib import Path

import ml_dtypes
import numpy as np
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.plain_products import PlainProducts
from edgec.toolchain.stablehlo import parse_stablehlo

NAMED = """
func.func @main(%x: tensor<4x8xbf16>, %y: tensor<8x5xbf16>) -> tensor<4x5xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0],
    algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32,
      lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
      allow_imprecise_accumulation = false>
    : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}"""


def test_the_algorithm_is_left_out() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(NAMED, context)
        assert PlainProducts().run(module) == 1
        assert module.operation.verify()
        assert "algorithm" not in str(module)
        assert PlainProducts().run(module) == 0


def test_the_product_is_right(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(NAMED)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    rng = np.random.default_rng(10)
    x, y = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((4, 8), (8, 5)))
    with runtime.load(module) as loaded:
        actual = loaded.main(x, y)
    np.testing.assert_allclose(actual, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-3)
