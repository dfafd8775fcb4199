"""ONNX models with functions of their own, in versions that are not the model's."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from edgec.exporters import export
from edgec.exporters.from_onnx.functions import expand, inlined
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain.program import Program

_DOMAIN = "own"


def _model(operation: str, version: int) -> onnx.ModelProto:
    """`Neg(outer(x))`, where outer calls inner, and inner is one operation of a version."""
    of_model = [helper.make_opsetid("", 17), helper.make_opsetid(_DOMAIN, 1)]
    older = [helper.make_opsetid("", version), helper.make_opsetid(_DOMAIN, 1)]
    inner = helper.make_function(
        _DOMAIN, "inner", ["a"], ["b"], [helper.make_node(operation, ["a"], ["b"])], older
    )
    outer = helper.make_function(
        _DOMAIN,
        "outer",
        ["a"],
        ["c"],
        [
            helper.make_node("inner", ["a"], ["b"], domain=_DOMAIN),
            helper.make_node("Abs", ["b"], ["c"]),
        ],
        older,
    )
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [
        helper.make_node("outer", ["x"], ["t"], domain=_DOMAIN),
        helper.make_node("Neg", ["t"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "main", [x], [y])
    return helper.make_model(graph, opset_imports=of_model, functions=[inner, outer], ir_version=8)


def test_functions_of_a_version_that_changes_nothing_are_inlined() -> None:
    model = _model("Softplus", 15)
    found = inlined(model)
    assert [node.op_type for node in found.graph.node] == ["Softplus", "Abs", "Neg"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
    (answer,) = ReferenceEvaluator(found).run(None, {"x": x})
    np.testing.assert_allclose(answer, -np.log1p(np.exp(x)), rtol=1e-6)


def test_an_operation_that_leaves_an_input_out_is_written_as_its_function() -> None:
    random = np.random.default_rng(2)
    shapes = {"q": (1, 3, 8), "k": (1, 3, 4), "v": (1, 3, 4), "decay": (1, 3, 4), "beta": (1, 3, 1)}
    inputs = {n: random.random(shape, np.float32) for n, shape in shapes.items()}
    node = helper.make_node(
        "LinearAttention",
        ["q", "k", "v", "", "decay", "beta"],  # no state of before
        ["y", "state"],
        q_num_heads=2,
        kv_num_heads=1,
    )
    graph = helper.make_graph(
        [node],
        "main",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "state")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)])
    found = expand(model, {"LinearAttention"})
    assert found is not None
    assert "LinearAttention" not in {node.op_type for node in found.graph.node}
    for ours, theirs in zip(
        ReferenceEvaluator(found).run(None, inputs),
        ReferenceEvaluator(model).run(None, inputs),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_function_with_a_scan_is_exported(replay: Callable[[Program], float]) -> None:
    random = np.random.default_rng(2)
    inputs = {n: random.random((1, 3, 4), np.float32) for n in ("q", "k", "v")}
    node = helper.make_node(
        "LinearAttention",
        list(inputs),
        ["y", "state"],
        q_num_heads=2,
        kv_num_heads=2,
        update_rule="linear",
    )
    graph = helper.make_graph(
        [node],
        "main",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "state")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)])
    assert replay(export(model, tuple(inputs.values()))) < 1e-5


def test_functions_that_onnx_cannot_bring_to_the_models_version_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="another version of ONNX' operations"):
        inlined(_model("Upsample", 9))
