"""ONNX models with functions of their own, in versions that are not the model's."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from edgec.exporters.from_onnx.functions import inlined
from edgec.runtime.errors import UnsupportedOp

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


def test_functions_that_onnx_cannot_bring_to_the_models_version_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="another version of ONNX' operations"):
        inlined(_model("Upsample", 9))
