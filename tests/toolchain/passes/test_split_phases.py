"""Transposed convolutions become plain ones, and mean the same."""

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.convolution import read_convolution
from edgec.toolchain.passes.simplify.split_phases import SplitPhases

CASES = {
    "4 by 4, stride 2": ((2, 5, 6, 3), (4, 4, 3, 5), (2, 2), [(2, 2), (2, 2)], (1, 1)),
    "3 by 3, stride 2": ((1, 5, 4, 3), (3, 3, 3, 5), (2, 2), [(1, 2), (1, 1)], (1, 1)),
    "stride 3 by 1": ((1, 5, 4, 3), (5, 2, 3, 5), (3, 1), [(4, 3), (1, 0)], (1, 1)),
    "a window less than the stride": ((1, 4, 4, 3), (1, 2, 3, 5), (2, 3), [(0, 1), (1, 1)], (1, 1)),
    "dilated": ((1, 5, 6, 3), (3, 3, 3, 5), (2, 2), [(3, 3), (2, 4)], (3, 2)),
    "cut": ((1, 6, 6, 3), (3, 3, 3, 5), (2, 2), [(-1, 0), (0, -2)], (1, 1)),
    "a line": ((2, 7, 3), (6, 3, 4), (4,), [(3, 5)], (1,)),
    "a volume": ((1, 3, 3, 4, 2), (4, 2, 3, 2, 3), (2, 1, 2), [(2, 2), (0, 1), (1, 2)], (1, 1, 1)),
}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_phases_between_each_other_are_the_convolution(name, groups):
    image_shape, weight_shape, spread, pads, dilation = CASES[name]
    image_shape = (*image_shape[:-1], image_shape[-1] * groups)
    weight_shape = (*weight_shape[:-1], weight_shape[-1] * groups)
    rng = np.random.default_rng(3)
    image, weight = (rng.standard_normal(s).astype(np.float32) for s in (image_shape, weight_shape))
    axes = "DHW"[-len(spread) :]

    def function(image, weight):
        return jax.lax.conv_general_dilated(
            image,
            weight,
            (1,) * len(spread),
            pads,
            lhs_dilation=spread,
            rhs_dilation=dilation,
            dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
            feature_group_count=groups,
        )

    text = str(jax.jit(function).lower(image, weight).compiler_ir("stablehlo"))
    with ir.Context():
        module = ir.Module.parse(text)
        assert SplitPhases().run(module) == 1
        assert module.operation.verify()
        found = [op for op in inside(module.operation) if op.name == "stablehlo.convolution"]
        described = [read_convolution(op) for op in found]
        assert all(axis.plain for conv in described for axis in conv.axes)
        assert len(found) <= np.prod(spread)
        (main,) = (op for op in inside(module.operation) if op.name == "func.func")
        entry = main.regions[0].blocks[0]
        results = list(entry.operations[len(entry.operations) - 1].operation.operands)
        (answer,) = evaluate(results, dict(zip(entry.arguments, (image, weight), strict=True)))
        assert SplitPhases().run(module) == 0
    np.testing.assert_allclose(answer, np.asarray(function(image, weight)), 1e-4, 1e-5)


TURNED = """
func.func @main(%x: tensor<1x5x5x2xf32>, %w: tensor<2x3x2x4xf32>) -> tensor<1x4x3x4xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {reverse = [true, false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x5x5x2xf32>, tensor<2x3x2x4xf32>) -> tensor<1x4x3x4xf32>
  return %0 : tensor<1x4x3x4xf32>
}
"""


def test_a_turned_window_becomes_turned_weights():
    with ir.Context():
        module = ir.Module.parse(TURNED)
        assert SplitPhases().run(module) == 1
        assert module.operation.verify()
        after = str(module)
    assert "stablehlo.reverse %arg1, dims = [0]" in after
    assert "reverse = [" not in after
