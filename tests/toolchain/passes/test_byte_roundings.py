"""Values rounded to bytes whose scale and zero point span them, against onnxruntime."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from iree.compiler import ir
from onnx import TensorProto, helper, numpy_helper

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.integer_products import IntegerProducts
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.passes.test_integer_products import ARM, X86

RANDOM = np.random.default_rng(3)
VALUES = {
    "few": RANDOM.normal(size=3),
    "row": RANDOM.normal(size=(1, 100)) * 40,
    "above": RANDOM.uniform(1, 2, (7, 33)),
    "below": -RANDOM.uniform(1, 2, 64),
    "nothing": np.zeros(20),
    "many": RANDOM.normal(size=(300, 333)),  # so many that several workgroups share them
}


def model_of(values: Mapping[str, np.ndarray], weights: np.ndarray | None) -> onnx.ModelProto:
    """Each value rounded; the bytes of the last by weights, if there are any."""
    nodes, outputs = [], []
    for name in values:
        made = [f"{name}_bytes", f"{name}_scale", f"{name}_zero"]
        nodes.append(helper.make_node("DynamicQuantizeLinear", [name], made))
        outputs += made
    constants = []
    if weights is not None:
        names = [outputs[-3], "w", outputs[-1]]
        nodes.append(helper.make_node("MatMulInteger", names, ["sums"]))
        constants.append(numpy_helper.from_array(weights, "w"))
        outputs = ["sums"]
    graph = helper.make_graph(
        nodes,
        "roundings",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in values.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        constants,
    )
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


def test_bytes_scale_and_zero_point_are_those_of_onnxruntime(tmp_path: Path) -> None:
    values = {name: value.astype(np.float32) for name, value in VALUES.items()}
    model = model_of(values, None)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, values)
    program = export(model, tuple(values.values())).save(tmp_path / "roundings.mlirbc")
    path = tmp_path / "roundings.vmfb"
    compile(program, "cpu:host", CompileOptions(output=path, check=False, validate=True))
    with load(path) as module:
        got = module.main(*values.values())
    for output, want in zip(model.graph.output, wanted, strict=True):
        assert np.array_equal(got[output.name], want), output.name


@pytest.mark.parametrize("unit", [X86, ARM])
def test_a_product_takes_bytes_and_zero_point_as_they_are_written(
    unit: DotUnit, tmp_path: Path
) -> None:
    values = {"x": RANDOM.normal(size=(2, 16)).astype(np.float32)}
    weights = RANDOM.integers(-128, 128, (16, 32)).astype(np.int8)
    path = tmp_path / "product.mlirbc"
    export(model_of(values, weights), (values["x"],)).save(path)
    with ir.Context() as context, validating():
        module = parse_stablehlo(path.read_bytes(), context)
        Canonicalise().run(module)
        assert IntegerProducts(unit=unit).run(module) == 2
        text = str(module.body.operations[len(module.body.operations) - 1])
    for name in ("reduce", "round_nearest_even", "xor", "add", "convert", "dot_general"):
        assert f"stablehlo.{name}" not in text
