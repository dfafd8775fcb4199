"""Groups of devices that a program names by axes of its mesh."""

import numpy as np
import pytest
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

from edgec.exporters.mesh.groups import number_groups, numbers_of

GRID = np.arange(24).reshape(2, 4, 3)
SHARDY = '#sdy.mesh<["x"=2, "y"=4, "z"=3]>'
TURNED = '#sdy.mesh<["a"=2, "b"=2], device_ids=[3, 1, 2, 0]>'


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ('#stablehlo.axis_ref<name = "x">', GRID.transpose(1, 2, 0).reshape(-1, 2)),
        ('"y"', GRID.transpose(0, 2, 1).reshape(-1, 4)),
        ('"z", "x"', GRID.transpose(1, 2, 0).reshape(-1, 6)),
        (
            '#stablehlo.axis_ref<name = "y", sub_axis_info = (2)2>',
            GRID.reshape(2, 2, 2, 3).transpose(0, 1, 3, 2).reshape(-1, 2),
        ),
        (
            '#stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>',
            GRID.reshape(2, 2, 2, 3).transpose(0, 2, 3, 1).reshape(-1, 2),
        ),
    ],
)
def test_axes_are_groups_of_devices(axes: str, wanted: np.ndarray) -> None:
    assert numbers_of(SHARDY, axes) == wanted.tolist()


def test_devices_in_another_order_have_their_own_numbers() -> None:
    assert numbers_of(TURNED, '"b"') == [[3, 1], [2, 0]]
    inline = (
        '#stablehlo.mesh<axes=[<name = "a", size = 2>, <name = "b", size = 2>], '
        "device_ids=dense<[3, 1, 2, 0]> : tensor<4xi64>>"
    )
    assert numbers_of(inline, '"a"') == [[3, 2], [1, 0]]


def test_a_module_has_numbers_where_it_had_names() -> None:
    text = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [
        #stablehlo.axis_ref<name = "x">]>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    with make_ir_context() as context:
        module = ir.Module.parse(text, context)
        number_groups(module)
        assert "replica_groups = dense<[[0, 2], [1, 3]]>" in str(module)
